package sharedtest

import (
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// spendAll spends single units of key until one is refused, and returns how many
// passed.
func spendAll(t *testing.T, s weir.Store, l *weir.Limit) int64 {
	t.Helper()
	for n := int64(0); ; n++ {
		d, err := s.TakeOne(t.Context(), "k", l, 1)
		switch {
		case err != nil || d.Guarantee().Degraded || n > 3*l.Count:
			t.Fatalf("%s after %d: %+v, %v", l.Name, n, d, err)
		case !d.Allowed():
			return n
		}
	}
}

// What the node holds when the key is reset was of the old count: it is neither
// spent nor returned to the new one.
func testForget(t *testing.T, newNode New) {
	r := servertest.Redis(t)
	a, shared := redisNode(t, newNode, r, Options{Timeout: 5 * time.Second})
	l := compiled(t, weir.PerDay(400, algorithm.FixedWindow), leased)
	for n := 0; n < 20 || a.Stats().LeaseUnits == 0; n++ {
		if d, err := a.TakeOne(t.Context(), "k", l, 1); err != nil || !d.Allowed() {
			t.Fatalf("%+v, %v, %d held", d, err, a.Stats().LeaseUnits)
		}
	}
	if _, err := a.Forget(t.Context(), "k", l); err != nil {
		t.Fatal(err)
	}
	if n := a.Stats().LeaseUnits; n != 0 {
		t.Errorf("%d units are held after the reset", n)
	}
	// Whoever has spent since has spent all the same after the node ended.
	if d, err := shared.TakeOne(t.Context(), "k", l, 300); err != nil || !d.Allowed() {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err := shared.TakeOne(t.Context(), "k", l, 0); err != nil || d.Remaining != 100 {
		t.Errorf("%d of 400 are left after 300 were spent, %v", d.Remaining, err)
	}
	if _, err := a.Forget(t.Context(), "k", l); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a closed store forgot: %v", err)
	}
}

// A reset on one node of two that share a real Redis: that node decides by the new
// count at once, the other within a second, and both together admit no more than
// the limit and what the other held.
func testForgetNodes(t *testing.T, newNode New) {
	t.Parallel()
	r := servertest.Redis(t)
	opt := Options{Timeout: 5 * time.Second, Nodes: 2}
	a, _ := redisNode(t, newNode, r, opt)
	b, _ := redisNode(t, newNode, r, opt)
	for _, m := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
		l := weir.PerDay(400, algorithm.FixedWindow)
		l.Name, l.Consistency.Mode = "forget "+m.String(), m
		compiled(t, l, nil)
		over := int64(0)
		if m == params.ConsistencyEventual {
			over = l.Overshoot()
		}
		// Some are spent on both, so that both hold and remember something.
		for range 20 {
			for _, s := range []weir.Store{a, b} {
				if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil || !d.Allowed() {
					t.Fatalf("%s: %+v, %v", l.Name, d, err)
				}
			}
		}
		if n := 40 + spendAll(t, a, l) + spendAll(t, b, l); n > 400+over {
			t.Errorf("%s: %d of 400 passed before the reset", l.Name, n)
		}
		if found, err := a.Forget(t.Context(), "k", l); err != nil || !found {
			t.Fatalf("%s: %v, %v", l.Name, found, err)
		}
		n := spendAll(t, a, l)
		if n < 200 {
			t.Errorf("%s: %d passed on the node that was asked right after the reset, want half the limit at least", l.Name, n)
		}
		if _, err := a.Forget(t.Context(), "k", l); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		servertest.Await(t, "the other node to see the reset", func() bool {
			d, err := b.TakeOne(t.Context(), "k", l, 1)
			return err == nil && d.Allowed()
		})
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%s: the other node saw the reset after %s", l.Name, took)
		}
		if n := 1 + spendAll(t, b, l) + spendAll(t, a, l); n > 400+over {
			t.Errorf("%s: %d of 400 passed after the reset", l.Name, n)
		}
	}
}
