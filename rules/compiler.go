package rules

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
)

// compiler makes a set of files that were read.
type compiler struct {
	*report
	opt Options
	// domains are those of all files, in their order.
	domains    []*domain
	algorithms map[string]weir.Algorithm
	names      []string
	// domain, defaults and path are those being compiled.
	domain   *domain
	defaults *defaultsSpec
	path     string
	// nodes says where each limit is written.
	nodes map[*limits.Limit]*node
	// lints: warnings of what is likely wrong are wanted.
	lints bool
	lint  *linter // of the file
}

func newCompiler(r *report, opt Options, lints bool) *compiler {
	c := &compiler{report: r, opt: opt, lints: lints, algorithms: map[string]weir.Algorithm{},
		nodes: map[*limits.Limit]*node{}}
	for _, a := range opt.Algorithms {
		c.algorithms[a.Name()] = a
		c.names = append(c.names, a.Name())
	}
	return c
}
