// Package query reads what is asked ([ParseParams]) and the rows that it is about: a
// [Reader] reads one state of them, counts, clients, arrivals and sketches, and says what
// they cover ([Coverage]).
package query
