package outage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

func TestEachPolicyDecides(t *testing.T) {
	for _, c := range []struct {
		policy  params.StoreErrorPolicy
		passes  int // of 30 when 60 of 100 are gone, by 2 nodes
		source  weir.Source
		indebts int
	}{
		{params.OnErrorDefault, 20, weir.FromShare, 1},
		{params.OnErrorLocal, 20, weir.FromShare, 1},
		{params.OnErrorLastKnown, 30, weir.FromLastKnown, 1},
		{params.OnErrorAllow, 30, weir.FailedOpen, 0},
		{params.OnErrorDeny, 0, weir.FailedClosed, 0},
	} {
		w := newWorld(t)
		w.parts = 2
		l := daily(t, 100, c.policy)
		w.spend("a", l, 60)
		w.down['a'] = true
		passed := 0
		for range 30 {
			o := w.spend("a", l, 1)
			if o.Decision.Allowed() {
				passed++
			}
			if g := o.Decision.Guarantee(); g.Source != c.source || !g.Degraded {
				t.Errorf("%s: %+v", c.policy, g)
			}
		}
		if passed != c.passes || w.CountDebts() != c.indebts || w.Degraded.Load() != 30 {
			t.Errorf("%s: %d pass, %d debts", c.policy, passed, w.CountDebts())
		}
	}
}

// A refusal by deny refuses the limits that the node's own store decides too.
func TestDeniedRequestChargesNothing(t *testing.T) {
	w := newWorld(t)
	local, deny := daily(t, 100, params.OnErrorLocal), daily(t, 50, params.OnErrorDeny)
	deny.Scope = "other"
	if err := deny.Compile(); err != nil {
		t.Fatal(err)
	}
	ops := []weir.Op{{Key: "a", Limit: local, Cost: 7}, {Key: "a", Limit: deny, Cost: 7}}
	if err := w.DecideOps(context.Background(), ops, errOpen); err != nil {
		t.Fatal(err)
	}
	if weir.Fold(ops).Allowed() || ops[0].Charged || w.used("a", local) != 0 {
		t.Errorf("%+v", ops)
	}
	// The debt that was begun ends.
	if w.pay(); w.CountDebts() != 0 || w.calls != 0 {
		t.Errorf("%d debts, %d calls", w.CountDebts(), w.calls)
	}
}

// The end of a caller's context is its own error: it decides nothing and begins no outage.
func TestEndOfTheCallerDecidesNothing(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorAllow)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ops := []weir.Op{{Key: "a", Limit: l, Cost: 1}}
	if err := w.DecideOps(ctx, ops, errGone); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if ops[0].Decision.Allowed() || w.CountDebts() != 0 || w.Degraded.Load() != 0 {
		t.Errorf("%+v, %d debts, %d degraded", ops[0].Decision, w.CountDebts(), w.Degraded.Load())
	}
}

// A caller that left early and is decided for all the same gets the node's share of a
// limit that says allow.
func TestAllowIsLocalWhereTheCallerLeft(t *testing.T) {
	w := newWorld(t)
	w.parts = 10
	l, passed := daily(t, 100, params.OnErrorAllow), 0
	for range 30 {
		ops := []weir.Op{{Key: "a", Limit: l, Cost: 1}}
		if err := w.DecideOps(context.Background(), ops, errGone); err != nil {
			t.Fatal(err)
		}
		if ops[0].Charged {
			passed++
		}
	}
	if w.pay(); passed != 10 || w.counted("a", l) != 10 {
		t.Errorf("%d passed, %d counted", passed, w.counted("a", l))
	}
}

func TestWrongRequestsAreNotDecided(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorAllow)
	for _, wrong := range []error{weir.ErrCost, weir.ErrNoLease, weir.ErrRefund, weir.ErrClosed} {
		ops := []weir.Op{{Key: "a", Limit: l, Cost: 1}}
		if err := w.DecideOps(context.Background(), ops, &transport.Result{Outcome: transport.Rejected, Err: wrong}); !errors.Is(err, wrong) || ops[0].Decision.Allowed() {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// I7: whatever the shard does, what it is not known to have counted is at most the share.
func TestShareIsHandedOutOnce(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorLocal)
	passed := int64(0)
	use := func() {
		for range 150 {
			if w.spend("a", l, 1).Charged {
				passed++
			}
		}
	}
	w.fate = func() fate { return refused }
	for range 5 { // out, and back, and nothing is acknowledged
		w.down['a'] = true
		use()
		w.down['a'] = false
		w.pay()
		if passed != 100 || w.CountDebts() != 1 {
			t.Fatalf("%d passed of 100, %d debts", passed, w.CountDebts())
		}
	}
	w.fate = func() fate { return answered }
	if w.pay(); w.counted("a", l) != 100 || w.used("a", l) != 0 || w.Paid.Load() != 100 || w.CountDebts() != 0 {
		t.Errorf("%d counted, %d of the share used, %d debts", w.counted("a", l), w.used("a", l), w.CountDebts())
	}
	w.down['a'] = true // what was counted is known
	if use(); passed != 100 {
		t.Errorf("%d passed of 100", passed)
	}
}

// A shard that is out is not tried; those of others are paid.
func TestDebtsOfAnOpenShardWait(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorLocal)
	w.down['a'], w.down['b'] = true, true
	w.spend("a", l, 5)
	w.spend("b", l, 7)
	w.down['b'] = false
	if w.pay(); w.calls != 1 || w.counted("b", l) != 7 || w.CountDebts() != 1 || w.used("a", l) != 5 {
		t.Errorf("%d calls, %d debts", w.calls, w.CountDebts())
	}
	w.down['a'] = false
	if w.pay(); w.counted("a", l) != 5 || w.CountDebts() != 0 {
		t.Errorf("%d debts", w.CountDebts())
	}
}

// Where each payment takes its time, Pay ends after a second or so, says how many debts it
// did not begin with, and goes on with those next time.
func TestPayIsBoundedInTime(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorLocal)
	w.down['a'] = true
	for i := range 100 {
		w.spend(fmt.Sprint("a", i), l, 5)
	}
	w.down['a'] = false
	once := w.Once
	w.Once = func(calls [][]weir.Op, end func(i int, sent clock.Node, err error)) {
		w.now.Add(700_000)
		once(calls, end)
	}
	for want := 100 - 2*atOnce; want > 0; want -= 2 * atOnce {
		left, err := w.PayDebts()
		if err != nil || left != want || w.CountDebts() != want {
			t.Fatalf("%d left, %d debts, %v, want %d", left, w.CountDebts(), err, want)
		}
	}
	if left, err := w.PayDebts(); err != nil || left != 0 || w.CountDebts() != 0 || w.calls != 100 {
		t.Errorf("%d left, %d debts, %d calls, %v", left, w.CountDebts(), w.calls, err)
	}
}

// A payment that was made again in vain is given up, and the share stays used by it.
func TestUnheardPaymentIsLost(t *testing.T) {
	for f, counted := range map[fate]int64{dropped: 0, unheard: 30} {
		w := newWorld(t)
		l := daily(t, 100, params.OnErrorLocal)
		w.down['a'] = true
		w.spend("a", l, 30)
		w.down['a'] = false
		w.fate = func() fate { return f }
		if w.pay(); w.calls != 1 || w.Lost.Load() != 30 || w.CountDebts() != 0 || w.counted("a", l) != counted || w.used("a", l) != 30 {
			t.Errorf("%d calls, %d lost, %d debts, %d used", w.calls, w.Lost.Load(), w.CountDebts(), w.used("a", l))
		}
	}
}

// A call that was late before it was sent cannot have run: it is made again.
func TestUnsentPaymentIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorLocal)
	w.down['a'] = true
	w.spend("a", l, 30)
	w.down['a'] = false
	once := w.Once
	w.Once = func(_ [][]weir.Op, end func(i int, sent clock.Node, err error)) {
		end(0, 0, &transport.Result{Outcome: transport.Unsent, Err: transport.ErrLate})
	}
	w.pay()
	w.Once = once
	if w.pay(); w.Lost.Load() != 0 || w.counted("a", l) != 30 {
		t.Errorf("%d lost, %d counted", w.Lost.Load(), w.counted("a", l))
	}
}

// What the share has back by itself is not owed.
func TestWhatFlowedBackIsNotOwed(t *testing.T) {
	w := newWorld(t)
	l := &weir.Limit{Name: "bucket", Algorithm: algorithm.TokenBucket, Count: 60, Period: time.Minute}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	w.down['a'] = true
	w.spend("a", l, 50)
	w.spend("a2", l, 10)
	w.now.Add(20_000_000)
	w.down['a'] = false
	if w.pay(); w.charged["a"] < 28 || w.charged["a"] > 31 || w.charged["a2"] != 0 || w.calls != 1 || w.CountDebts() != 0 {
		t.Errorf("charged %v by %d calls", w.charged, w.calls)
	}
}

// Units that the node admitted alone are not owed when they are given back; the store gets
// the others, unless the call may have reached it.
func TestRefundsLowerTheDebtFirst(t *testing.T) {
	for _, sent := range []bool{false, true} {
		w := newWorld(t)
		l := daily(t, 100, params.OnErrorLocal)
		before := w.spend("a", l, 40)
		w.down['a'] = true
		w.spend("a", l, 10)
		ops, result := []weir.Op{before.Undo(25)}, errOpen
		if sent {
			result = errLate
		}
		if err := w.DecideOps(context.Background(), ops, result); err != nil || !ops[0].Decision.Allowed() {
			t.Fatal(ops, err)
		}
		w.down['a'] = false
		w.pay()
		stranded, back := w.Returns.Stranded.Load(), w.returned()
		switch {
		case !sent && (w.charged["a"] != 0 || back != 15 || stranded != 0 || w.counted("a", l) != 25):
			t.Errorf("%d charged, %d given back, %d counted", w.charged["a"], back, w.counted("a", l))
		case sent && (w.charged["a"] != 10 || back != 0 || stranded != 25 || w.counted("a", l) != 50):
			t.Errorf("sent: %d charged, %d given back, %d stranded", w.charged["a"], back, stranded)
		}
	}
}

// Nothing is given back of a request that is refused.
func TestRefusedRequestGivesNothingBack(t *testing.T) {
	w := newWorld(t)
	deny := daily(t, 50, params.OnErrorDeny)
	ops := []weir.Op{{Key: "a", Limit: deny, Cost: 3, Verb: weir.Refund, Role: weir.Always}, {Key: "b", Limit: deny, Cost: 1}}
	if err := w.DecideOps(context.Background(), ops, errOpen); err != nil {
		t.Fatal(err)
	}
	if ops[0].Charged || w.returned() != 0 {
		t.Errorf("%+v", ops[0])
	}
	alone := ops[:1]
	if err := w.DecideOps(context.Background(), alone, errOpen); err != nil || !ops[0].Charged || w.returned() != 3 {
		t.Errorf("%+v, %v", ops[0], err)
	}
}

// A decision that is under way keeps the share from going back.
func TestShareStaysWhileADecisionIsUnderWay(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorLocal)
	w.down['a'] = true
	w.spend("a", l, 60)
	w.down['a'] = false
	w.ahead = func() {
		w.down['a'] = false
		w.pay()
		w.pay()
		w.down['a'] = true
		if w.counted("a", l) != 0 || w.CountDebts() != 1 {
			t.Errorf("%d counted, %d debts", w.counted("a", l), w.CountDebts())
		}
	}
	w.down['a'] = true
	if o := w.spend("a", l, 50); o.Charged {
		t.Error("110 of 100 passed")
	}
	w.down['a'] = false
	if w.pay(); w.used("a", l) != 0 || w.CountDebts() != 0 {
		t.Errorf("%d used, %d debts", w.used("a", l), w.CountDebts())
	}
}

// A debt of which nothing is owed any more stays for a decision that is under way.
func TestEmptyDebtStaysWhileADecisionIsUnderWay(t *testing.T) {
	w := newWorld(t)
	l := &weir.Limit{Name: "bucket", Algorithm: algorithm.TokenBucket, Count: 60, Period: time.Minute}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	w.down['a'] = true
	w.spend("a", l, 10)
	w.now.Add(20_000_000)
	w.slow['a'] = true
	w.ahead = w.pay
	w.spend("a", l, 30)
	w.down['a'] = false
	if w.pay(); w.charged["a"] < 28 || w.charged["a"] > 30 {
		t.Errorf("%d were charged of 30 that passed", w.charged["a"])
	}
}

// What is given back while it is paid goes to the store.
func TestRefundDuringAPayment(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorLocal)
	w.down['a'] = true
	o := w.spend("a", l, 30)
	w.down['a'] = false
	once := w.Once
	w.Once = func(calls [][]weir.Op, end func(i int, sent clock.Node, err error)) {
		back := []weir.Op{o.Undo(20)}
		if err := w.DecideOps(context.Background(), back, errOpen); err != nil {
			t.Fatal(err)
		}
		once(calls, end)
	}
	if w.pay(); w.counted("a", l) != 30 || w.returned() != 20 || w.counted("a", l) != 10 || w.used("a", l) != 0 {
		t.Errorf("%d counted, %d used", w.counted("a", l), w.used("a", l))
	}
}

// Permits that a store may grant to a request that is refused are given back, by name.
func TestPermitsOfRefusedRequestsAreReturned(t *testing.T) {
	l := &weir.Limit{Name: "permits", Algorithm: algorithm.Concurrency, Count: 10, Period: time.Minute}
	l.Consistency.OnStoreError = params.OnErrorDeny
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	for err, want := range map[error]int{errLate: 1, errOpen: 0} {
		w := newWorld(t)
		ops := []weir.Op{{Key: "a", Limit: l, Cost: 2, ID: 77, NewLease: true}}
		if failed := w.DecideOps(context.Background(), ops, err); failed != nil || ops[0].Decision.Allowed() {
			t.Fatal(ops, failed)
		}
		back := w.Returns.TakeDue(0, 0)
		if len(back) != want || want > 0 && (back[0].ID != 77 || back[0].Free != 2 || !back[0].Again) {
			t.Errorf("%v: %+v", err, back)
		}
		release := []weir.Op{{Key: "a", Limit: l, Cost: 2, ID: 77, NewLease: true, Verb: weir.Refund}}
		if failed := w.DecideOps(context.Background(), release, err); failed != nil || len(w.Returns.TakeDue(0, 0)) != 1 {
			t.Errorf("a release is not sent later: %v", failed)
		}
	}
}

func TestDebtsAreBounded(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorLocal)
	w.down['a'] = true
	key := "a" + strings.Repeat("k", 1000)
	for i := range 200 {
		if !w.spend(key+string(rune(i+'0')), l, 3).Charged {
			t.Fatal("without room for a debt nothing passes")
		}
	}
	if n := w.CountDebts(); n < 20 || int64(n)*(debtBytes+1000) > 1<<16 || w.Lost.Load() != uint64(3*(200-n)) {
		t.Errorf("%d debts, %d units lost", n, w.Lost.Load())
	}
	w.down['a'] = false
	if w.pay(); w.CountDebts() != 0 || w.bytes != 0 || w.calls == 0 {
		t.Errorf("%d debts, %d bytes", w.CountDebts(), w.bytes)
	}
}

// Whatever shards, payments and answers do, what a shard is not known to have counted is
// at most the share (I7), no payment is made twice, and when all is quiet the store has
// counted what was admitted, but for what the node says is lost.
func TestRandomOutages(t *testing.T) {
	const keys = 4
	var admittedAlone int64
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t)
		w.parts = 1 + r.Int64N(3)
		lossy := r.IntN(2) == 0
		limits := []*weir.Limit{daily(t, 200, params.OnErrorLocal), daily(t, 100+r.Int64N(200), params.OnErrorLocal)}
		most := max(limits[0].Burst, limits[1].Burst) / w.parts
		l, all := limits[0], daily(t, 1_000_000, params.OnErrorLocal)
		var admitted, alone, asked [keys]int64
		var open [keys][]weir.Op
		w.fate = func() fate {
			if lossy {
				return fate(r.IntN(4))
			}
			return fate(r.IntN(2))
		}
		key := func(k int) string { return string(rune('a'+k/2)) + string(rune('0'+k)) }
		busy := false
		var step func()
		step = func() {
			k := r.IntN(keys)
			shard := key(k)[0]
			switch r.IntN(12) {
			case 0:
				w.down[shard] = !w.down[shard]
				w.slow[shard] = r.IntN(2) == 0
			case 1:
				l = limits[r.IntN(2)]
			case 2, 3:
				if !busy { // payments do not overlap
					busy = true
					w.pay()
					busy = false
				}
			case 4:
				if n := len(open[k]); n > 0 && w.down[shard] {
					back := []weir.Op{open[k][n-1].Undo(open[k][n-1].Cost)}
					open[k] = open[k][:n-1]
					if err := w.DecideOps(context.Background(), back, errOpen); err != nil || !back[0].Charged {
						t.Fatal(back, err)
					}
					admitted[k] -= back[0].Cost
				}
			case 5:
				w.ahead, w.after = step, r.IntN(2) == 0 // comes between
			default:
				out := w.down[shard]
				o := w.spend(key(k), l, 1+r.Int64N(20))
				if !o.Charged {
					break
				}
				admitted[k] += o.Cost
				open[k] = append(open[k], o)
				if out {
					alone[k] += o.Cost
					admittedAlone += o.Cost
				} else {
					asked[k] += o.Cost
				}
			}
			for k := range keys {
				if n := admitted[k] - asked[k] - w.charged[key(k)]; n > most {
					t.Fatalf("seed %d: %d units of a share of %d are not counted", seed, n, most)
				}
				if w.charged[key(k)] > alone[k] {
					t.Fatalf("seed %d: %d were charged, %d were admitted", seed, w.charged[key(k)], alone[k])
				}
			}
		}
		for range 300 {
			step()
		}
		w.fate, w.ahead = func() fate { return answered }, nil
		clear(w.down)
		for range 3 {
			w.pay()
			w.returned()
		}
		lost := int64(w.Lost.Load())
		for k := range keys {
			counted := w.counted(key(k), all)
			if n := admitted[k] - counted; n > lost || !lossy && n != 0 {
				t.Errorf("seed %d: %d admitted and not given back, %d counted, %d lost", seed, admitted[k], counted, lost)
			}
			if u := w.used(key(k), all); !lossy && u != 0 {
				t.Errorf("seed %d: %d of a share are used when all is paid", seed, u)
			}
		}
		if w.CountDebts() != 0 || w.bytes != 0 || !lossy && lost != 0 {
			t.Errorf("seed %d: %d debts, %d bytes, %d lost", seed, w.CountDebts(), w.bytes, lost)
		}
	}
	if admittedAlone < 100_000 {
		t.Errorf("only %d were admitted by shares", admittedAlone)
	}
}
