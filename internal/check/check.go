// Package check finds what is wrong, or likely is, in a configuration and the rules that it
// names, before a node serves by them: settings that exclude each other, files that cannot be
// read, and, on one [Plan] of what the doors ask, rules that no request meets and requests
// that no rule limits.
package check

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// FindFaults reads a configuration file and all that it names: limits, rules, files,
// keys and routes. It returns the rules, nil if there are none or they do not load, and
// what is wrong, as faults of the file, such as a limit that its store cannot serve; a
// warning is no fault. Nothing is opened that a node would serve by, and no other machine
// is asked.
func FindFaults(path string) (*limits.Set, rules.Errors) {
	conf := config.Defaults()
	if err := conf.LoadFile(path); err != nil {
		return nil, faultsOf(path, err)
	}
	out := faultsOf(path, conf.Check())
	n := readNamed(conf)
	defer n.close()
	for _, e := range faultsOf(path, n.err) {
		if !slices.ContainsFunc(out, func(o *rules.Error) bool { return o.Msg == e.Msg }) { // limits of routes are read twice
			out = append(out, e)
		}
	}
	out = append(append(out, n.found...), findNever(path, conf.Routes)...)
	if faults, _ := out.Split(); len(faults) > 0 || n.set == nil || conf.Rules == "" {
		return n.set, out
	}
	a, err := MakePlan(conf, n.who, n.set)
	if err != nil {
		return n.set, append(out, faultsOf(path, err)...)
	}
	for _, u := range a.Found {
		out = append(out, u.finding(a, path))
	}
	for _, u := range FindUnlimited(conf, n.who, n.set) {
		out = append(out, u.finding(path))
	}
	faults, warnings := out.Split()
	return n.set, append(faults, warnings...)
}

// faultsOf returns err as faults of a configuration file, each where it says it is.
func faultsOf(path string, err error) (out rules.Errors) {
	for _, e := range splitErrors(err) {
		fault, ok := e.(*rules.Error)
		if !ok {
			fault = &rules.Error{File: path, Msg: e.Error()}
		}
		out = append(out, fault)
	}
	return out
}

// TryStart reports why a node would not start with c, but for what other machines, and
// other programs on this one, have to do with: what is wrong with the settings, and with
// the files that they name.
func TryStart(c *config.Config) error {
	if err := c.Check(); err != nil {
		return err
	}
	n := readNamed(c)
	defer n.close()
	errs := []error{n.err}
	if faults, _ := n.found.Split(); len(faults) > 0 {
		errs = append(errs, faults)
	}
	return errors.Join(errs...)
}

// splitErrors returns the errors that were joined to err.
func splitErrors(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, splitErrors(e)...)
		}
		return all
	}
	return []error{err}
}

// finding returns u as a fault of the rules, or of the configuration at path.
func (u *Unasked) finding(a *Plan, path string) *rules.Error {
	e := &rules.Error{File: path, Path: u.What, Msg: u.Summary() + ": " + u.Why, Warning: u.Minor}
	if file := a.Set.File(u.Domain); file != "" {
		e.File = file
	}
	if u.Rule != nil {
		e.File, e.Line, e.Column = u.Rule.File, u.Rule.Line, u.Rule.Column
	}
	if u.Add != "" {
		e.Hint = fmt.Sprintf("add to %s of %s: %s", u.To, path, u.Add)
	}
	return e
}
