package weir_test

import (
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

// charged settles ops and returns "pass" or "refuse" and the verb by which each
// op is charged, "-" where it is not.
func charged(ops []weir.Op) string {
	out := []string{"refuse"}
	if weir.Settle(ops) {
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

func TestSettle(t *testing.T) {
	f := func(want string, ops ...weir.Op) {
		t.Helper()
		if got := charged(ops); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	op := func(r weir.Role, d weir.Decision) weir.Op {
		return weir.Op{Role: r, Decision: d, Limit: d.Limit, Cost: 1}
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

// What is told of the ops that plainly pass is what Counted says of them.
func TestPlainlyAllowed(t *testing.T) {
	queue := &weir.Limit{Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Second, Burst: 5}
	if err := queue.Compile(); err != nil {
		t.Fatal(err)
	}
	decisions := []weir.Decision{yes, no, {Limit: queue, Remaining: 5}, {Limit: queue, RetryAfter: time.Second}}
	var all []weir.Op
	for _, d := range decisions {
		for role := weir.Enforce; role <= weir.Deny; role++ {
			for verb := weir.Spend; verb <= weir.Refund; verb++ {
				for _, is := range []bool{true, false} {
					all = append(all, weir.Op{Role: role, Verb: verb, Charged: is, Decision: d, Limit: d.Limit, Cost: 1})
				}
			}
		}
	}
	plain := 0
	try := func(ops ...weir.Op) {
		outcome, counted := weir.Counted(ops, 0)
		if !weir.PlainlyAllowed(ops, 0) {
			return
		}
		if plain++; outcome != weir.Allowed || !counted {
			t.Errorf("%+v: %s, %t", ops, outcome, counted)
		}
	}
	for _, o := range all {
		try(o)
		for _, next := range all {
			try(o, next)
		}
	}
	if !weir.PlainlyAllowed([]weir.Op{all[0]}, 0) || plain < 30 {
		t.Errorf("%d of %d are plain", plain, len(all))
	}
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
		return weir.Op{Role: r, Decision: weir.Decision{Limit: yes.Limit, Remaining: remaining, RetryAfter: retry}}
	}
	big := weir.Op{Decision: weir.Decision{Limit: mustLimit(1000), Remaining: 40}}

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
	kept.Reserve = 4
	f("3 0s", kept) // what is kept for others does not remain for this one
	forced := op(weir.Enforce, 0, time.Hour)
	forced.Verb = weir.Force
	f("0 0s", forced)
}
