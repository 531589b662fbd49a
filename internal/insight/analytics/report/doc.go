// Package report has the answers of analytics as they are sent, one for each path of
// [ListQuestions], and what makes them of the rows that query reads.
package report
