package redis

import (
	"context"
	"sync"

	"github.com/weirlimit/weir"
)

// isFree reports whether no op must allow, so that each place is charged on its own
// account: units that are given back, and costs that were incurred.
func isFree(ops []weir.Op, all []asked) bool {
	if len(all) != len(ops) {
		return false
	}
	for i := range all {
		a := &all[i]
		if a.Role != weir.Always || a.Verb != weir.Refund && a.Verb != weir.Force {
			return false
		}
	}
	return true
}

// takeEach charges the groups of free ops all at once, which are waited for together
// and no longer than for one. If one fails, what others were forced to take is given
// back.
func (s *Store) takeEach(ctx context.Context, ops []weir.Op, all []asked, groups [][]*asked) error {
	var wg sync.WaitGroup
	errs := make([]error, len(groups))
	for i, g := range groups[1:] {
		wg.Go(func() { errs[i+1] = s.takeGroup(ctx, g, true) })
	}
	errs[0] = s.takeGroup(ctx, groups[0], true)
	wg.Wait()
	var failed error
	var done [][]*asked
	for i, err := range errs {
		if err == nil {
			done = append(done, groups[i])
		} else if failed == nil {
			failed = err
		}
	}
	if failed != nil {
		t := apart{store: s, ctx: ctx, ops: ops, all: all, groups: groups}
		t.giveBack(done)
	}
	return failed
}
