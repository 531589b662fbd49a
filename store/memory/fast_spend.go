package memory

import "github.com/weirlimit/weir"

// fastOps is how many ops are spent one by one.
const fastOps = 4

// spendFast does what look, Resolve and charge do, in half the steps where all of ops
// allow: it spends one by one, and when one refuses puts back the cells of those before
// it. It reports false, and has changed nothing, where they are not all spends. Two that
// are alone are takePair's. See docs/decisions/0014-fast-paths.md.
func spendFast(ops []weir.Op, all []taken, now int64) bool {
	if !isSpendOnly(ops, all) {
		return false
	}
	var before [fastOps][maxDirect]int64
	for i := range ops {
		o, row := &ops[i], all[i].segment.row(all[i].at)
		copy(before[i][:], row)
		o.Decision = o.Limit.Algorithm.Step(row, o.Limit, weir.Ask{Now: now, Cost: o.Cost, ID: o.ID})
		o.Now, o.Charged, o.Borrowed = now, true, false
		if o.Decision.Allowed() {
			continue
		}
		for j := range i {
			copy(all[j].segment.row(all[j].at), before[j][:])
		}
		for j := range ops {
			o := &ops[j]
			o.Now, o.Charged, o.Borrowed = now, false, false
			if j != i {
				a := weir.Ask{Now: now, Cost: o.Cost, ID: o.ID, Verb: weir.Peek}
				o.Decision = o.Limit.Algorithm.Step(all[j].segment.row(all[j].at), o.Limit, a)
			}
		}
		return true
	}
	return true
}

// isSpendOnly reports whether all of ops are spends that must allow, of different keys
// whose cells are in place.
func isSpendOnly(ops []weir.Op, all []taken) bool {
	if len(ops) > fastOps {
		return false
	}
	for i := range ops {
		o, p := &ops[i], &all[i]
		if o.Role != weir.Enforce || o.Verb != weir.Spend || o.Headroom != 0 || o.Penalize ||
			!p.found || p.again || p.window != nil || p.table.slabs != nil {
			return false
		}
	}
	return true
}
