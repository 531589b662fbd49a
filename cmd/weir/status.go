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

// errUnreached is returned by a subcommand that has printed that what it did reaches nobody.
var errUnreached = errors.New("reaches no front end")

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
	case errors.Is(err, errUnreached):
		return exitError
	}
	fmt.Fprintln(s.err, program+":", err)
	return exitError
}
