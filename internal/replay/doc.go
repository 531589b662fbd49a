// Package replay tries rules on what has happened: it reads access logs and
// decides every request of them as a running node would have, on the log's own
// clock.
//
// The rules are matched, counted and folded by the same code as on a node, on the
// embedded store. What is told of the outcome is exact, but for the number of
// different clients where there are many, and for who was refused most.
package replay
