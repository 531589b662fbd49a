package rules

import "github.com/weirlimit/weir/limits"

// linter warns of what is allowed and yet likely wrong, while a file is being
// compiled.
type linter struct {
	*report
	// warns: else it says nothing.
	warns bool
	// names holds the limits of the domain by name, and wants what is to be
	// replaced.
	names map[string]*limits.Limit
	wants []want
	pools map[string]bool
	// form is Options.EntryForm, or nil.
	form func(key, value string) (string, error)
	// nodes says where each limit is written.
	nodes map[*limits.Limit]*node
}

type want struct {
	name string
	by   *limits.Limit
	path string
}

// newLinter returns the linter of a file.
func (c *compiler) newLinter() *linter {
	return &linter{report: c.report, warns: c.lints, form: c.opt.EntryForm, nodes: c.nodes,
		names: map[string]*limits.Limit{}, pools: map[string]bool{}}
}

// addWarning reports a warning at n, if the linter warns.
func (l *linter) addWarning(n *node, path, hint, format string, args ...any) {
	if l.warns {
		l.report.addWarning(n, path, hint, format, args...)
	}
}
