package outage

import (
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
)

// returnUnits has the shared store get units of a refund back when it answers. If it may
// have got them already nobody does: they are stranded.
func (u *Outage) returnUnits(o *weir.Op, units int64, sent bool) {
	switch {
	case units == 0:
	case sent:
		u.Returns.Stranded.Add(uint64(units))
	default:
		u.Returns.AddReturn(lot.ReturnOf(o, units))
		o.Answer.Set(o.Decision, o.Now, 0, true, o.Borrowed)
	}
}

// returnPermits has the shared store get permits back under names that nobody else
// knows: those that it may grant to a request that was not admitted, and those that the
// request gives back. Of a call that its caller left, when it has ended.
func (u *Outage) returnPermits(ops []weir.Op, err error, left, admitted bool, r *transport.Result) {
	takes := func(o weir.Op) bool {
		return o.NewLease && o.Cost > 0 && (o.Verb == weir.Spend || o.Verb == weir.Force) && o.Role != weir.Ban && o.Role != weir.Deny
	}
	var back []lot.Return
	for _, o := range ops {
		if o.NewLease && o.Verb == weir.Refund || takes(o) && !admitted && (left || transport.MayRun(err)) {
			b := lot.ReturnOf(&o, o.Cost)
			b.Again, b.Expiry = !left && takes(o), u.Clock.Now().Add(micros.Of(o.Limit.Period))
			back = append(back, b)
		}
	}
	addReturns := func(ops []weir.Op, err error) {
		if err != nil || slices.ContainsFunc(ops, func(o weir.Op) bool { return takes(o) && o.Charged }) {
			for _, b := range back {
				u.Returns.AddReturn(b)
			}
		}
	}
	if !left {
		addReturns(nil, err)
	} else if len(back) > 0 {
		r.WhenEnded(addReturns)
	}
}
