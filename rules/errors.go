package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error is one fault in a rules file: where it is, what is wrong, and how to
// put it right.
type Error struct {
	// File as it was named to Load.
	File string `json:"file"`
	// Line and Column count from 1. Zero means the file, or the line, as a whole.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path leads to the fault by the names in the file: "checkout/user_id".
	Path string `json:"path,omitempty"`
	// Msg says what is wrong.
	Msg string `json:"msg"`
	// Hint says how to put it right. May be empty.
	Hint string `json:"hint,omitempty"`
	// Warning: the file loads all the same.
	Warning bool `json:"warning,omitempty"`
}

// Error returns the fault on one line:
//
//	rules/checkout.yaml:14:7: checkout/user_id: unknown unit "minuet" (did you mean "minute"?)
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Column > 0 {
		fmt.Fprintf(&b, ":%d", e.Column)
	}
	b.WriteString(": ")
	if e.Warning {
		b.WriteString("warning: ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Errors lists faults in the order of files and lines.
type Errors []*Error

// Error returns the faults, one a line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find an *Error.
func (es Errors) Unwrap() []error {
	all := make([]error, len(es))
	for i, e := range es {
		all[i] = e
	}
	return all
}

// Split returns the faults that keep a file from loading, and the warnings.
func (es Errors) Split() (faults, warnings Errors) {
	for _, e := range es {
		if e.Warning {
			warnings = append(warnings, e)
		} else {
			faults = append(faults, e)
		}
	}
	return faults, warnings
}

func (es Errors) sortByPosition() {
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// maxFaults bounds how many faults of one load are kept, and how many warnings:
// whoever has that many will not read on, and a hostile file must not fill the
// memory with them.
const maxFaults = 200

// report collects the faults of one load.
type report struct {
	file string
	list Errors
	// faults and warnings count all, also those that are not kept.
	faults, warnings int
}

func (r *report) addError(e *Error) {
	n := &r.faults
	if e.Warning {
		n = &r.warnings
	}
	if *n++; *n > maxFaults {
		return
	}
	if e.File == "" {
		e.File = r.file
	}
	e.Path, e.Msg, e.Hint = printable(e.Path), printable(e.Msg), printable(e.Hint)
	r.list = append(r.list, e)
}

// addFault reports a fault at n.
func (r *report) addFault(n *node, path, hint, format string, args ...any) {
	r.addErrorAt(n, path, hint, false, format, args...)
}

// addWarning reports a warning at n.
func (r *report) addWarning(n *node, path, hint, format string, args ...any) {
	r.addErrorAt(n, path, hint, true, format, args...)
}

func (r *report) addErrorAt(n *node, path, hint string, warning bool, format string, args ...any) {
	e := &Error{Path: path, Msg: fmt.Sprintf(format, args...), Hint: hint, Warning: warning}
	if n != nil {
		e.File, e.Line, e.Column = n.file, n.line, n.col
	}
	r.addError(e)
}

// sortedErrors returns what was collected, in order.
func (r *report) sortedErrors() Errors {
	r.list.sortByPosition()
	if left := r.faults - maxFaults; left > 0 {
		r.list = append(r.list, &Error{File: r.file, Msg: fmt.Sprintf("%d more faults are not shown", left)})
	}
	if left := r.warnings - maxFaults; left > 0 {
		r.list = append(r.list, &Error{File: r.file, Warning: true, Msg: fmt.Sprintf("%d more warnings are not shown", left)})
	}
	return r.list
}

// printable returns s with what could mislead a terminal or a log written out:
// the files may come from elsewhere.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool { return !strconv.IsPrint(c) }) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if strconv.IsPrint(c) {
			b.WriteRune(c)
		} else {
			q := strconv.QuoteRune(c)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}
