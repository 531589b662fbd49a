package rules

import "github.com/weirlimit/weir"

// trace records how a request is matched. A nil trace records nothing.
type trace struct{}

func (t *trace) listed(e weir.Entry, v verdict)                {}
func (t *trace) tried(at, i int, e weir.Entry, r *Rule, h how) {}
func (t *trace) replaced(f *found, l *Limit)                   {}
func (t *trace) matched(f *found, ops []weir.Op)               {}
