package main

import (
	"errors"
	"fmt"
)

// Exit statuses.
const (
	exitNo    = 1
	exitError = 2
)

// errNo is returned by a subcommand that has printed its answer, which is no.
var errNo = errors.New("no")

// statusOf returns the exit status of a program that ends with an error or nil, and
// prints the error.
func statusOf(err error, program string, s streams) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return exitNo
	}
	fmt.Fprintln(s.err, program+":", err)
	return exitError
}
