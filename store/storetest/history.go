package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// history asks a store and the model the same random questions.
func (s *suite) history() {
	seed := uint64(time.Now().UnixNano())
	defer func() {
		if s.Failed() {
			s.Logf("seed %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 0))
	m := newModel()
	h := historian{Rand: r, limits: slices.DeleteFunc(limits(s), func(l *weir.Limit) bool { return !exact(l) })}
	steps := 20_000
	if s.Brief {
		steps = 3_000
	}
	for n := range steps {
		asked := h.ops()
		if s.RefundsLast {
			slices.SortStableFunc(asked, func(a, b weir.Op) int { return isRefund(&a) - isRefund(&b) })
		}
		ops := slices.Clone(asked)
		if err := s.store.Take(s.ctx, ops); err != nil {
			s.Fatalf("question %d: %+v: %v", n, asked, err)
		}
		want := slices.Clone(asked)
		now := ops[0].Now
		if !s.Live && now != s.clock.Load() {
			s.Fatalf("question %d: answered at %d, the time is %d", n, now, s.clock.Load())
		}
		m.take(want, now)
		for i := range ops {
			w := &want[i]
			w.Answer = weir.Answer{Decision: w.Decision, Now: now, Charged: w.Charged, Borrowed: w.Borrowed}
			if ops[i] != want[i] {
				s.Fatalf("question %d, op %d of\n%s\nanswered %s\n    want %s", n, i, format(asked), answer(&ops[i]), answer(&want[i]))
			}
		}
		h.remember(ops)
		s.pass(h.pause())
	}
}

// isRefund returns 1 for a refund, else 0.
func isRefund(o *weir.Op) int {
	if o.Verb == weir.Refund {
		return 1
	}
	return 0
}

func format(ops []weir.Op) string {
	var out string
	for i := range ops {
		o := &ops[i]
		out += fmt.Sprintf("%s %q of %s cost %d reserve %d id %d charged at %d role %d penalize %v\n", o.Verb, o.Key, o.Limit.Name, o.Cost, o.Headroom, o.ID, o.ChargedAt, o.Role, o.Penalize)
	}
	return out
}

func answer(o *weir.Op) string {
	d := o.Decision
	return fmt.Sprintf("remaining %d retry %v reset %v charged %v borrowed %v at %d", d.Remaining, d.RetryAfter, d.ResetAfter, o.Charged, o.Borrowed, o.Now)
}

// A historian makes up questions.
type historian struct {
	*rand.Rand
	limits    []*weir.Limit
	receipts  [64]receipt
	receipted int
}

// A receipt names a charge.
type receipt struct{ id, charged int64 }

func (h *historian) pick() *weir.Limit { return h.limits[h.IntN(len(h.limits))] }

func (h *historian) key() string { return fmt.Sprint("key", h.IntN(3)) }

// basic returns a limit that can be elastic and the like.
func (h *historian) basic() *weir.Limit {
	for {
		if l := h.pick(); l.Traits()&(weir.Leases|weir.Shapes) == 0 {
			return l
		}
	}
}

func (h *historian) ops() []weir.Op {
	var ops []weir.Op
	for range 1 + h.IntN(3) {
		switch h.IntN(12) {
		case 0:
			cost := h.cost(h.basic())
			ops = append(ops, h.op(h.basic(), weir.Own, cost), h.op(h.basic(), weir.Pool, cost))
		case 1:
			ops = append(ops, h.op(h.pick(), weir.Shadow, -1))
		case 2:
			ops = append(ops, h.op(h.basic(), weir.Soft, -1))
		case 3:
			ops = append(ops, h.op(h.basic(), weir.Ban, 1))
		case 4:
			o := h.op(h.basic(), weir.Enforce, -1)
			o.Penalize = true
			ops = append(ops, o)
		case 5:
			ops = append(ops, h.op(h.pick(), weir.Always, -1))
		case 6:
			l := h.pick()
			ops = append(ops, weir.Op{Limit: l, Role: weir.Deny, Answer: weir.Answer{Decision: weir.Decision{Limit: l, RetryAfter: weir.Never}}})
		default:
			o := h.op(h.pick(), weir.Enforce, -1)
			o.Verb = h.verb()
			if o.Limit.Traits()&weir.Leases == 0 && h.IntN(4) == 0 {
				o.Headroom = h.Int64N(min(o.Limit.Count, 4))
			}
			ops = append(ops, o)
		}
		if h.IntN(8) == 0 {
			ops = append(ops, ops[h.IntN(len(ops))]) // the same once more
		}
	}
	return ops
}

// op returns an op of a random key; a negative cost means a random one.
func (h *historian) op(l *weir.Limit, role weir.Role, cost int64) weir.Op {
	if cost < 0 {
		cost = h.cost(l)
	}
	o := weir.Op{Key: h.key(), Limit: l, Cost: cost, Role: role}
	switch {
	case l.Traits()&weir.Leases != 0:
		o.ID = 1 + h.Int64N(6)
	case h.IntN(2) == 0:
		r := h.receipts[h.IntN(len(h.receipts))]
		if o.ID = r.id; h.IntN(2) == 0 {
			o.ChargedAt = r.charged
		}
	}
	return o
}

func (h *historian) cost(l *weir.Limit) int64 {
	switch h.IntN(8) {
	case 0:
		return 0
	case 1:
		return h.Int64N(l.Count + l.Count/4 + 2)
	case 2:
		return 1 + h.Int64N(max(l.Count/4, 1))
	}
	return 1
}

func (h *historian) verb() weir.Verb {
	return [...]weir.Verb{weir.Spend, weir.Spend, weir.Spend, weir.Spend, weir.Peek, weir.Force, weir.Refund}[h.IntN(7)]
}

// remember keeps receipts for refunds to come.
func (h *historian) remember(ops []weir.Op) {
	for i := range ops {
		if ops[i].Charged && ops[i].Decision.Limit != nil {
			undo := ops[i].Undo(ops[i].Cost)
			h.receipts[h.receipted%len(h.receipts)] = receipt{ops[i].Receipt(), undo.ChargedAt}
			h.receipted++
		}
	}
}

// pause never goes back: when a key was forgotten may differ between stores,
// and matters again once the clock has gone back.
func (h *historian) pause() time.Duration {
	switch h.IntN(100) {
	case 0:
		return h.upTo(2 * time.Hour)
	case 1, 2, 3:
		return h.upTo(20 * time.Second)
	case 4, 5, 6, 7, 8:
		return h.upTo(time.Second)
	}
	return h.upTo(5 * time.Millisecond)
}

func (h *historian) upTo(d time.Duration) time.Duration { return time.Duration(h.Int64N(int64(d))) }
