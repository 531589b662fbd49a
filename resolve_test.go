package weir_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

var (
	yes = weir.Decision{Limit: mustLimit(10), Remaining: 5}
	no  = weir.Decision{Limit: mustLimit(10), RetryAfter: time.Second}
)

func mustLimit(count int64) *weir.Limit {
	l := weir.PerSecond(count, algorithm.TokenBucket)
	if err := l.Compile(); err != nil {
		panic(err)
	}
	return l
}

// charged resolves ops and returns "pass" or "refuse" and the verb by which each
// op is charged, "-" where it is not.
func charged(ops []weir.Op) string {
	out := []string{"refuse"}
	if weir.Resolve(ops) {
		out[0] = "pass"
	}
	for i := range ops {
		s := "-"
		if ops[i].Charged {
			s = ops[i].Commit().String()
		}
		if ops[i].Borrowed {
			s += "(borrowed)"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestResolve(t *testing.T) {
	f := func(want string, ops ...weir.Op) {
		t.Helper()
		if got := charged(ops); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	op := func(r weir.Role, d weir.Decision) weir.Op {
		return weir.Op{Role: r, Answer: weir.Answer{Decision: d}, Limit: d.Limit, Cost: 1}
	}
	with := func(o weir.Op, change func(*weir.Op)) weir.Op { change(&o); return o }
	penalized := func(o *weir.Op) { o.Penalize = true }
	force := func(o *weir.Op) { o.Verb = weir.Force }
	refund := func(o *weir.Op) { o.Verb = weir.Refund }
	peek := func(o *weir.Op) { o.Verb = weir.Peek }

	// All or nothing.
	f("pass spend spend", op(weir.Enforce, yes), op(weir.Enforce, yes))
	f("refuse - -", op(weir.Enforce, yes), op(weir.Enforce, no))
	f("refuse - -", op(weir.Enforce, no), op(weir.Enforce, yes))

	// A soft threshold is charged whatever it says, but only when all pass.
	f("pass spend force", op(weir.Enforce, yes), op(weir.Soft, no))
	f("refuse - -", op(weir.Enforce, no), op(weir.Soft, yes))

	// A shadow is not heard; it counts only what it would have let pass.
	f("pass spend spend", op(weir.Enforce, yes), op(weir.Shadow, yes))
	f("pass spend -", op(weir.Enforce, yes), op(weir.Shadow, no))
	f("refuse - -", op(weir.Enforce, no), op(weir.Shadow, yes))

	// Elastic: own share first, and then the pool is charged all the same.
	f("pass spend force", op(weir.Own, yes), op(weir.Pool, yes))
	f("pass spend force", op(weir.Own, yes), op(weir.Pool, no))
	f("pass - force(borrowed)", op(weir.Own, no), op(weir.Pool, yes))
	f("refuse - -", op(weir.Own, no), op(weir.Pool, no))
	f("refuse - - -", op(weir.Enforce, no), op(weir.Own, no), op(weir.Pool, yes))

	// Penalties.
	f("refuse force -", with(op(weir.Enforce, no), penalized), op(weir.Enforce, yes))
	f("refuse force -", op(weir.Ban, yes), op(weir.Enforce, no))
	f("refuse - -", op(weir.Ban, no), op(weir.Enforce, yes))
	f("pass - spend", op(weir.Ban, yes), op(weir.Enforce, yes))

	// Costs already incurred, and costs given back.
	f("pass - force", with(op(weir.Ban, no), force), with(op(weir.Enforce, no), force))
	f("pass - force(borrowed)", with(op(weir.Own, no), force), with(op(weir.Pool, no), force))
	f("refuse - -", with(op(weir.Ban, yes), peek), with(op(weir.Enforce, no), peek))
	f("pass force", with(op(weir.Enforce, no), force))
	f("pass spend refund", op(weir.Enforce, yes), with(op(weir.Always, yes), refund))
	f("refuse - -", op(weir.Enforce, no), with(op(weir.Always, yes), refund))

	// Looking charges nothing.
	f("pass - - -(borrowed)", with(op(weir.Enforce, yes), peek), with(op(weir.Own, no), peek), with(op(weir.Pool, yes), peek))
}

// scripted is a store that answers each op as its key says, and the rules whose ops
// they are.
type scripted struct {
	weir.Store
	ops []weir.Op
}

func (s *scripted) Match(dst []weir.Op, _ *weir.Request) []weir.Op { return append(dst, s.ops...) }

func (s *scripted) Take(_ context.Context, ops []weir.Op) error {
	for i := range ops {
		if o := &ops[i]; o.Decision.Limit == nil {
			o.Decision = weir.Decision{Limit: o.Limit, Remaining: 5}
			if o.Key == "no" {
				o.Decision = weir.Decision{Limit: o.Limit, RetryAfter: time.Second}
			}
		}
	}
	weir.Resolve(ops)
	return nil
}

// Each op of a decision counts as one outcome or none, under its limit, and says so.
func TestOutcome(t *testing.T) {
	queue := &weir.Limit{Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Second, Burst: 5}
	if err := queue.Compile(); err != nil {
		t.Fatal(err)
	}
	f := func(want string, ops ...weir.Op) {
		t.Helper()
		for i := range ops {
			if o := &ops[i]; o.Limit == nil {
				o.Limit = mustLimit(10)
			}
		}
		s := &scripted{ops: ops}
		b, err := weir.New(s, s, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := b.Acquire()
		if _, err := b.Decide(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, o := range r.Ops() {
			got = append(got, o.Outcome.String())
			for out := weir.Allowed; out < weir.NumOutcomes; out++ {
				n := uint64(0)
				if out == o.Outcome {
					n = 1
				}
				if c := o.Limit.Counters().Load(out); c != n {
					t.Errorf("%s: op %d: %d counted as %s, want %d", want, i, c, out, n)
				}
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	op := func(r weir.Role, key string) weir.Op { return weir.Op{Role: r, Key: key, Cost: 1} }
	with := func(o weir.Op, change func(*weir.Op)) weir.Op { change(&o); return o }
	ceiling := func(o *weir.Op) { o.Part = weir.PartCeiling }
	force := func(o *weir.Op) { o.Verb = weir.Force }
	delayed := func(o *weir.Op) {
		o.Limit = queue
		o.Decision = weir.Decision{Limit: queue, Remaining: 1, ResetAfter: 3 * time.Second}
	}
	const yes, no = "yes", "no"
	f("allowed allowed", op(weir.Enforce, yes), op(weir.Enforce, yes))
	f("uncounted refused", op(weir.Enforce, yes), op(weir.Enforce, no))
	f("allowed", with(op(weir.Enforce, no), force))
	f("delayed", with(op(weir.Enforce, yes), delayed))
	f("uncounted soft allowed", op(weir.Enforce, yes), op(weir.Soft, no), op(weir.Enforce, yes))
	f("allowed uncounted", op(weir.Enforce, yes), op(weir.Soft, yes))
	f("refused uncounted", op(weir.Enforce, no), op(weir.Soft, no))
	f("allowed shadow_refused allowed", op(weir.Enforce, yes), op(weir.Shadow, no), op(weir.Shadow, yes))
	f("refused shadow_refused uncounted", op(weir.Enforce, no), op(weir.Shadow, no), op(weir.Shadow, yes))
	f("allowed uncounted", op(weir.Own, yes), op(weir.Pool, no))
	f("uncounted borrowed", op(weir.Own, no), op(weir.Pool, yes))
	f("refused uncounted", op(weir.Own, no), op(weir.Pool, no))
	f("uncounted allowed uncounted", with(op(weir.Enforce, yes), ceiling), op(weir.Own, yes), op(weir.Pool, yes))
	f("refused uncounted uncounted", with(op(weir.Enforce, no), ceiling), op(weir.Own, yes), op(weir.Pool, yes))
	f("uncounted refused uncounted", with(op(weir.Enforce, no), ceiling), op(weir.Own, no), op(weir.Pool, yes))
	f("refused uncounted", op(weir.Ban, no), op(weir.Enforce, yes))
	f("uncounted refused", op(weir.Ban, yes), op(weir.Enforce, no))
	f("uncounted", with(op(weir.Enforce, no), func(o *weir.Op) { o.Verb = weir.Peek }))
	f("uncounted allowed", with(op(weir.Always, yes), func(o *weir.Op) { o.Verb = weir.Refund }), op(weir.Enforce, yes))
	denied := with(op(weir.Deny, no), func(o *weir.Op) {
		o.Limit = mustLimit(10)
		o.Decision = weir.Decision{Limit: o.Limit, RetryAfter: weir.Never}
	})
	f("uncounted refused", op(weir.Enforce, yes), denied)
}

func TestFold(t *testing.T) {
	f := func(want string, ops ...weir.Op) {
		t.Helper()
		d := weir.Fold(ops)
		if got := fmt.Sprintf("%d %v", d.Remaining, d.RetryAfter); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	op := func(r weir.Role, remaining int64, retry time.Duration) weir.Op {
		return weir.Op{Role: r, Answer: weir.Answer{Decision: weir.Decision{Limit: yes.Limit, Remaining: remaining, RetryAfter: retry}}}
	}
	big := weir.Op{Answer: weir.Answer{Decision: weir.Decision{Limit: mustLimit(1000), Remaining: 40}}}

	f("9007199254740992 0s") // no limit: the largest cost passes
	f("0 0s", op(weir.Enforce, 7, 0), weir.Op{})
	f("3 0s", op(weir.Enforce, 7, 0), op(weir.Enforce, 3, 0))
	f("40 0s", op(weir.Enforce, 7, 0), big) // 4 % of 1000 is tighter than 70 % of 10
	f("2 3s", op(weir.Enforce, 0, time.Second), op(weir.Enforce, 2, 3*time.Second))
	f("5 -1ns", op(weir.Enforce, 0, time.Hour), op(weir.Enforce, 5, weir.Never))
	f("7 0s", op(weir.Enforce, 7, 0), op(weir.Shadow, 0, time.Hour), op(weir.Soft, 0, time.Hour))
	f("7 0s", op(weir.Enforce, 7, 0), op(weir.Ban, 1, 0))
	f("0 1s", op(weir.Own, 0, 2*time.Second), op(weir.Pool, 0, time.Second))
	borrowed := op(weir.Pool, 4, 0)
	borrowed.Borrowed = true
	f("4 0s", op(weir.Own, 0, 2*time.Second), borrowed)
	kept := op(weir.Enforce, 7, 0)
	kept.Headroom = 4
	f("3 0s", kept) // what is kept for others does not remain for this one
	forced := op(weir.Enforce, 0, time.Hour)
	forced.Verb = weir.Force
	f("0 0s", forced)
}
