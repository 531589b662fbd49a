package shared

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// A watch is a decider whose draws the oracles learn of when they are made: a request may
// wait for others of its limits, and its window end meanwhile.
type watch struct {
	lot.Decider
	*node
	at int // the limit
}

// watchDraws has the oracles learn of what is drawn on the node.
func (n *node) watchDraws() {
	newPolicy := n.store.policies.make
	n.store.policies.make = func(l *weir.Limit) (*policy, error) {
		p, err := newPolicy(l)
		if at := n.limitOf(l.ID()); err == nil && at >= 0 && p.decider != nil && l.Traits()&weir.Leases == 0 {
			p.decider = &watch{p.decider, n, at}
		}
		return p, err
	}
}

// Draw implements lot.Decider.
func (w *watch) Draw(_ context.Context, now clock.Node, o *weir.Op, h *lot.Hold) (lot.Verdict, *lot.Flight) {
	v, f := w.Decider.Draw(context.Background(), now, o, h) // no request waits for the calls of a flight
	if v == lot.Charged && o.Charged {
		w.event("draw", w.index, int64(w.at), o.Cost)
		w.truths[w.at].admit(w.homeAt(w.at).time(), o.Cost)
		if w.at == atTally {
			w.reports.admitted += o.Cost
			w.lookAtSlack(o.Limit)
		}
	}
	return v, f
}

// Undo implements lot.Decider.
func (w *watch) Undo(now clock.Node, h *lot.Hold) {
	for i := range h.Parts {
		p := &h.Parts[i]
		w.truths[w.at].refund(w.homeAt(w.at).time(), p.Free, p.ID)
	}
	w.Decider.Undo(now, h)
}
