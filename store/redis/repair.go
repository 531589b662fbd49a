package redis

import (
	"context"
	_ "embed"
	"errors"

	"github.com/weirlimit/weir"
)

//go:embed repair.lua
var repairLua string

// repairKeys deletes the keys of ops which no script of ours can have written, and reports
// whether there was one. Each key is looked at and deleted in one step, so that what
// another node has written since is left alone.
func (n *pipeline) repairKeys(ctx context.Context, ops []weir.Op) (repaired bool) {
	s := n.store
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			continue
		}
		pl, err := s.plans.planForLimit(o.Limit, s.readClock)
		if err != nil {
			return false
		}
		t := tagForKey(o.Key)
		c := newCall(s.plans.scripts.repairOf(pl.twin))
		c.keys = append(c.keys, s.opt.Prefix+":{"+t+pl.suffix)
		c.args = append(c.args, verbs[weir.Peek], formatID(o.ID))
		c.args = append(pl.appendSpan(c.args, o.Limit, o.Cost), pl.consts...)
		if bad, err := s.runOutsideQueue(ctx, s.nodes.routeTag(t), c); bad && err == nil {
			repaired = true
			s.faults.Report("invalid value of a key deleted; its limit counts from zero", errors.New("limit "+o.Limit.Name))
		}
		c.recycle()
	}
	return repaired
}
