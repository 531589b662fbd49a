package outage

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
)

// Units that are lost stay used in the share in every later outage, not in the next alone.
func TestLostUnitsStayUsedInEveryLaterOutage(t *testing.T) {
	w := newWorld(t)
	l := daily(t, 100, params.OnErrorLocal)
	outage := func(cost int64, f fate) {
		t.Helper()
		w.down['a'] = true
		if !w.spend("a", l, cost).Charged {
			t.Fatalf("%d are refused", cost)
		}
		w.down['a'] = false
		w.fate = func() fate { return f }
		w.pay()
	}
	outage(30, dropped)
	for range 3 {
		if outage(5, answered); w.used("a", l) != 30 || w.CountDebts() != 0 {
			t.Errorf("%d of the share are used, 30 are lost", w.used("a", l))
		}
	}
	w.down['a'] = true
	if w.spend("a", l, 56).Charged {
		t.Error("101 of 100 passed")
	}
	if !w.spend("a", l, 55).Charged {
		t.Error("100 of 100 did not pass")
	}
}

// A debt becomes smaller once by units that are given back while its share is looked at.
func TestRefundWhileTheShareIsLookedAt(t *testing.T) {
	for _, after := range []bool{false, true} {
		w := newWorld(t)
		l := daily(t, 100, params.OnErrorLocal)
		w.down['a'] = true
		o := w.spend("a", l, 30)
		w.down['a'] = false
		w.after = after
		w.ahead = func() {
			back := []weir.Op{o.Undo(10)}
			if err := w.DecideOps(context.Background(), back, errOpen); err != nil || !back[0].Charged {
				t.Fatal(back, err)
			}
		}
		w.pay()
		if w.pay(); w.ahead != nil || w.charged["a"] != 20 || w.returned() != 0 || w.used("a", l) != 0 || w.CountDebts() != 0 {
			t.Errorf("%d of 20 charged, %d of the share used, %d debts", w.charged["a"], w.used("a", l), w.CountDebts())
		}
	}
}

// A debt is owed whole when a reload has lowered the limit below it.
func TestLoweredLimitKeepsTheDebt(t *testing.T) {
	w := newWorld(t)
	l, lower := daily(t, 100, params.OnErrorLocal), daily(t, 30, params.OnErrorLocal)
	w.down['a'] = true
	w.spend("a", l, 80)
	if w.spend("a", lower, 1).Charged {
		t.Error("81 of 30 passed")
	}
	w.down['a'] = false
	if w.pay(); w.charged["a"] != 80 || w.counted("a", l) != 80 || w.used("a", l) != 0 || w.CountDebts() != 0 {
		t.Errorf("%d of 80 charged, %d of the share used, %d debts", w.charged["a"], w.used("a", l), w.CountDebts())
	}
}

// A node's store that is full takes nothing back: what is given back is owed no more all the
// same.
func TestRefundWhileTheNodesStoreIsFull(t *testing.T) {
	w := newWorld(t)
	l, other := daily(t, 100, params.OnErrorLocal), daily(t, 7, params.OnErrorLocal)
	other.Scope = "other"
	if err := other.Compile(); err != nil {
		t.Fatal(err)
	}
	for i := range 40_000 { // twice as many as there is room for
		if _, err := w.Local.TakeOne(t.Context(), fmt.Sprint(i), other, 1); err != nil {
			t.Fatal(err)
		}
	}
	w.down['a'] = true
	o := w.spend("a", l, 30)
	back := []weir.Op{o.Undo(10)}
	if err := w.DecideOps(t.Context(), back, errOpen); err != nil || !back[0].Charged {
		t.Errorf("not given back: %v, %+v", err, back)
	}
	w.down['a'] = false
	if w.pay(); w.charged["a"] != 20 || w.returned() != 0 || w.CountDebts() != 0 {
		t.Errorf("%d of 20 charged, %d to be returned, %d debts", w.charged["a"], w.returned(), w.CountDebts())
	}
}
