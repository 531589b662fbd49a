package rules

import "github.com/weirlimit/weir"

// compiler makes a Set of files that were read.
type compiler struct {
	*report
	opt        Options
	set        *Set
	algorithms map[string]weir.Algorithm
	names      []string
	// domain, defaults and path are those being compiled.
	domain   *domain
	defaults *defaultsSpec
	path     string
	// lints: warnings of what is likely wrong are wanted.
	lints bool
	lint  *linter // of the file
}

func newCompiler(r *report, opt Options, lints bool) *compiler {
	c := &compiler{report: r, opt: opt, lints: lints, algorithms: map[string]weir.Algorithm{},
		set: &Set{domains: map[string]*domain{}}}
	for _, a := range opt.Algorithms {
		c.algorithms[a.Name()] = a
		c.names = append(c.names, a.Name())
	}
	return c
}
