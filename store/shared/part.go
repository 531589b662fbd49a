package shared

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A part is the ops of a request that go to one store.
type part struct {
	ops []weir.Op
	of  []*policy
	at  []int // the index of each op in the request
}

func (p *part) reset() { p.ops, p.of, p.at = p.ops[:0], p.of[:0], p.at[:0] }

func (p *part) add(o *weir.Op, of *policy, i int) {
	p.ops, p.of, p.at = append(p.ops, *o), append(p.of, of), append(p.at, i)
}

// answer copies the answers of a part to the request.
func (p *part) answer(ops []weir.Op) {
	for j, i := range p.at {
		if i == len(ops) {
			continue // it stands for the refusal of the whole
		}
		a, o := &p.ops[j], &ops[i]
		o.Decision, o.Now, o.Charged, o.Borrowed = a.Decision, a.Now, a.Charged, a.Borrowed
	}
}

// chargesRefusals clears the answers of a part, and reports whether it has ops that are
// charged when the request is refused.
func (p *part) chargesRefusals() (charges bool) {
	for i := range p.ops {
		o := &p.ops[i]
		charges = charges || o.Role == weir.Ban || o.Penalize
		if o.Role != weir.Deny {
			o.Decision = weir.Decision{}
		}
		o.Charged, o.Borrowed = false, false
	}
	return charges
}

// rollback returns what gives back the charges of a part, which is taken as not charged
// from then on.
func (p *part) rollback() (back []weir.Op) {
	for i := range p.ops {
		o := &p.ops[i]
		if o.Charged && o.Verb != weir.Refund && o.Limit.Traits()&weir.Sketches == 0 {
			back = append(back, transport.Rollback(o))
		}
		o.Charged, o.Borrowed = false, false
	}
	return back
}
