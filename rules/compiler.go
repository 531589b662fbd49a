package rules

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// compiler makes a Set of files that were read.
type compiler struct {
	*report
	set        *Set
	merge      bool
	check      func(*weir.Limit) error
	checkCost  func(*weir.Limit, int64) error
	forced     params.ConsistencyMode
	algorithms map[string]weir.Algorithm
	names      []string
	// domain, defaults and path are those being compiled.
	domain   *domain
	defaults *defaultsSpec
	path     string
	// lint is nil unless warnings are wanted.
	lint *linter
}

func newCompiler(r *report, opt Options) *compiler {
	c := &compiler{report: r, merge: opt.Merge, check: opt.Check, checkCost: opt.CheckCost, forced: opt.Consistency, algorithms: map[string]weir.Algorithm{},
		set: &Set{domains: map[string]*domain{}, dialect: r.dialect}}
	all := opt.Algorithms
	if all == nil {
		all = algorithm.All
	}
	for _, a := range all {
		c.algorithms[a.Name()] = a
		c.names = append(c.names, a.Name())
	}
	return c
}
