package redis

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

//go:embed repair.lua
var repairLua string

// RejectedError: the server answered that it cannot decide this call, for the sake of
// its keys or limits. Nothing was charged, and others are decided as ever.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *RejectedError) Unwrap() error { return e.Err }

// unserved begin errors by which a server serves nobody, even where a script ran into
// them.
var unserved = []string{
	"OOM ", "READONLY", "NOPERM", "MISCONF", "NOREPLICAS", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "NOAUTH", "NOSCRIPT", "TRYAGAIN", "MOVED ", "ASK ", "CROSSSLOT",
}

// isRejection reports whether err is what a script said of the keys or limits that it
// was given.
func isRejection(err error) bool {
	text, ofRow := "", false
	var row rowError
	if e, ok := replyError(err); ok {
		text = e.Error()
	} else if ofRow = errors.As(err, &row); ofRow {
		text = string(row)
	}
	if slices.ContainsFunc(unserved, func(sign string) bool { return strings.Contains(text, sign) }) {
		return false
	}
	return ofRow || strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "user_script") || strings.Contains(text, "Error running script")
}

// errSpoilt: a key has a value that no script of ours writes.
var errSpoilt = &RejectedError{errors.New("store redis: a key holds what no script of Weir writes")}

// isSpoilt reports whether err may be about a key that no script of ours wrote.
func isSpoilt(err error) bool {
	var rejected *RejectedError
	return errors.As(err, &rejected)
}

// isInsane reports whether a script told numbers that no row of ours has: they are
// beyond 2^54, or none.
func isInsane(state []int64) bool {
	return slices.ContainsFunc(state, func(n int64) bool { return n >= 1<<54 || n <= -1<<54 })
}

// sendRepaired deletes keys of c which no script of ours can have written, and sends it
// once more if there was one: then nothing was charged.
func (n *pipeline) sendRepaired(c *call) {
	ctx, cancel := context.WithTimeout(context.Background(), n.store.opt.callTimeout())
	defer cancel()
	if !n.repair(ctx, c.carrier.Ops) {
		n.settle(c, c.why)
		return
	}
	c.repaired, c.reply, c.bits = true, c.reply[:0], 0
	n.store.stats.calls.Add(1)
	n.send([]*call{c})
}

// repair deletes the keys of ops which no script of ours can have written, and reports
// whether there was one. Each key is looked at and deleted in one step, so that what
// another node has written since is left alone.
func (n *pipeline) repair(ctx context.Context, ops []weir.Op) (repaired bool) {
	s := n.store
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			continue
		}
		pl, err := s.plans.of(o.Limit, s.clock)
		if err != nil {
			return false
		}
		t := tag(o.Key)
		c := newCall(s.plans.scripts.repairOf(pl.twin))
		c.keys = append(c.keys, s.opt.Prefix+":{"+t+pl.suffix)
		c.args = append(c.args, verbs[weir.Peek], idText(o.ID))
		c.args = append(pl.appendSpan(c.args, o.Limit, o.Cost), pl.consts...)
		if bad, err := s.do(ctx, s.nodes.route(t), c); bad && err == nil {
			repaired = true
			s.faults.Report("invalid value of a key deleted; its limit counts from zero", errors.New("limit "+o.Limit.Name))
		}
		c.recycle()
	}
	return repaired
}
