package shared

import (
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A part is the ops of a request that go to one store.
type part struct {
	ops []weir.Op
	of  []*policy
	at  []int // the index of each op in the request
}

func (p *part) reset() { p.ops, p.of, p.at = p.ops[:0], p.of[:0], p.at[:0] }

func (p *part) appendOp(o *weir.Op, of *policy, i int) {
	p.ops, p.of, p.at = append(p.ops, *o), append(p.of, of), append(p.at, i)
}

// copyAnswers copies the answers of a part to the request.
func (p *part) copyAnswers(ops []weir.Op) {
	for j, i := range p.at {
		if i == len(ops) {
			continue // it stands for the refusal of the whole
		}
		ops[i].Answer = p.ops[j].Answer
	}
}

// chargesRefusals clears the answers of a part, and reports whether it has ops that are
// charged when the request is refused.
func (p *part) chargesRefusals() (charges bool) {
	for i := range p.ops {
		o := &p.ops[i]
		charges = charges || o.Role == weir.Ban || o.Penalize
		if o.Role != weir.Deny {
			o.Answer = weir.Answer{Now: o.Now}
		}
	}
	return charges
}

// leavesTrace reports whether a part is spent that cannot be given back without a trace.
func (p *part) leavesTrace() bool {
	return slices.ContainsFunc(p.ops, func(o weir.Op) bool {
		return o.Role != weir.Deny && o.Verb != weir.Peek && algorithm.LeavesTrace(o.Limit)
	})
}

// rollback returns what gives back the charges of a part, which is taken as not charged
// from then on.
func (p *part) rollback() (back []weir.Op) {
	for i := range p.ops {
		o := &p.ops[i]
		if o.Charged && o.Verb != weir.Refund && o.Limit.Traits()&weir.Sketches == 0 {
			back = append(back, transport.Rollback(o))
		}
		o.Answer = weir.Answer{Decision: o.Decision, Now: o.Now}
	}
	return back
}
