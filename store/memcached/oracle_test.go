package memcached_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memcached"
)

// A model is the obvious store: a map of rows under Step.
type model map[string][]int64

func (m model) row(o *weir.Op) []int64 {
	k := o.Limit.Scope + "\x00" + o.Key
	if m[k] == nil {
		m[k] = make([]int64, o.Limit.Cells)
	}
	return m[k]
}

func (m model) take(ops []weir.Op, now int64) {
	for i := range ops {
		o := &ops[i]
		o.Now = now
		if o.Role == weir.Deny {
			continue
		}
		ask := weir.Ask{Now: now, ID: o.ID, Verb: weir.Peek}
		if o.Cost > 0 || o.Headroom > 0 {
			ask.Cost = o.Cost + o.Headroom
			for j := range ops[:i] {
				e := &ops[j]
				if e.Role != weir.Deny && e.Key == o.Key && e.Limit == o.Limit && (e.Verb == weir.Spend || e.Verb == weir.Force) {
					ask.Cost += e.Cost
				}
			}
		}
		o.Decision = o.Limit.Algorithm.Step(m.row(o), o.Limit, ask)
	}
	weir.Resolve(ops)
	for i := range ops {
		o := &ops[i]
		if !o.Charged || o.Role == weir.Deny {
			continue
		}
		looked := o.Decision
		o.Decision = o.Limit.Algorithm.Step(m.row(o), o.Limit, weir.Ask{Now: now, Cost: o.Cost, ID: o.ID, Verb: o.Commit()})
		if !looked.Allowed() && o.Decision.Allowed() && o.Verb != weir.Refund {
			o.Decision.RetryAfter = looked.RetryAfter
		}
	}
}

// TestOracle asks the store, on one server and on three, the same random
// questions as the model: every field of every answer is the same.
func TestOracle(t *testing.T) {
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			o := memcached.Options{}
			for range servers {
				o.Servers = append(o.Servers, server(t))
			}
			var clock atomic.Int64
			clock.Store(start)
			o.Now = clock.Load
			oracle(t, open(t, o), &clock)
		})
	}
}

func oracle(t *testing.T, s weir.Store, clock *atomic.Int64) {
	h := historian{Rand: rand.New(rand.NewPCG(seeds.Of(t), 0)), limits: []*weir.Limit{
		fixed(t, "a", 5, 100*time.Millisecond, params.Params{}),
		fixed(t, "b", 20, time.Minute, params.Params{}),
		fixed(t, "c", 8, time.Second, params.Params{Phase: 300 * time.Millisecond}),
		fixed(t, "d", 8, 30*24*time.Hour, params.Params{Anchor: params.AnchorCalendar, Calendar: params.CalendarMonth}),
		fixed(t, "e", 30, 24*time.Hour, params.Params{Anchor: params.AnchorCalendar, Location: time.FixedZone("", 7200)}),
		fixed(t, "f", weir.MaxCost, 24*time.Hour, params.Params{}),
		fixed(t, "g", 1, time.Hour, params.Params{}),
	}}
	m, charged, refused := model{}, 0, 0
	questions := 2000
	if testing.Short() {
		questions = 500
	}
	for n := range questions {
		ops := h.ops()
		want := slices.Clone(ops)
		if err := s.Take(t.Context(), ops); err != nil {
			t.Fatalf("question %d: %v", n, err)
		}
		m.take(want, clock.Load())
		for i := range ops {
			if ops[i] != want[i] {
				t.Fatalf("question %d, op %d of\n%+v\nanswered %+v\n    want %+v", n, i, want, ops[i], want[i])
			}
			if ops[i].Charged {
				charged++
			}
			if !ops[i].Decision.Allowed() {
				refused++
			}
			h.receipts[h.IntN(len(h.receipts))] = ops[i].Receipt()
		}
		if h.IntN(3) == 0 {
			clock.Add(h.Int64N([]int64{2, 50_000, 2_000_000, 100_000_000}[h.IntN(4)]))
		}
	}
	if charged < questions/2 || refused < questions/3 {
		t.Errorf("%d ops were charged and %d refused: too few to show anything", charged, refused)
	}
}

// A historian makes up questions.
type historian struct {
	*rand.Rand
	limits   []*weir.Limit
	receipts [16]int64
}

func (h *historian) op(role weir.Role) weir.Op {
	l := h.limits[h.IntN(len(h.limits))]
	o := weir.Op{Key: fmt.Sprint("key", h.IntN(2)), Limit: l, Role: role}
	switch h.IntN(8) {
	case 0:
	case 1:
		o.Cost = l.Count
	case 2:
		o.Cost = min(l.Count+1, weir.MaxCost/4)
	default:
		o.Cost = 1 + h.Int64N(4)
	}
	if h.IntN(2) == 0 {
		o.ID = h.receipts[h.IntN(len(h.receipts))]
	}
	return o
}

// room reports whether ops are small enough to be added up.
func room(ops []weir.Op) bool {
	sum := int64(0)
	for i := range ops {
		if sum += ops[i].Cost + ops[i].Headroom; sum > weir.MaxCost {
			return false
		}
	}
	return true
}

func (h *historian) ops() []weir.Op {
	for {
		if ops := h.some(); room(ops) {
			return ops
		}
	}
}

func (h *historian) some() []weir.Op {
	var ops []weir.Op
	for range 1 + h.IntN(3) {
		switch h.IntN(10) {
		case 0:
			own, pool := h.op(weir.Own), h.op(weir.Pool)
			pool.Cost = own.Cost
			ops = append(ops, own, pool)
		case 1:
			role := []weir.Role{weir.Soft, weir.Shadow, weir.Always, weir.Ban}[h.IntN(4)]
			ops = append(ops, h.op(role))
		case 2:
			o := h.op(weir.Enforce)
			o.Penalize = true
			ops = append(ops, o)
		case 3:
			if h.IntN(4) == 0 {
				ops = append(ops, weir.Op{Limit: h.limits[0], Role: weir.Deny, Answer: weir.Answer{Decision: weir.Decision{Limit: h.limits[0], RetryAfter: weir.Never}}})
			}
			fallthrough
		default:
			o := h.op(weir.Enforce)
			o.Verb = []weir.Verb{weir.Spend, weir.Spend, weir.Spend, weir.Spend, weir.Peek, weir.Force, weir.Refund}[h.IntN(7)]
			if h.IntN(4) == 0 {
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
