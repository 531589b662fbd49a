package leased

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// What is drawn from units that another server has lent, while that of the key is lost, is
// labeled so: they are not of the counts that are back with it.
func TestUnitsOfASuccessorAreLabeled(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	moved, call := false, n.Fetch
	n.Fetch = func(f *lot.Flight, ops []weir.Op) (clock.Node, error) {
		sent, err := call(f, ops)
		if moved {
			ops[0].Decision.Limit = ops[0].Limit.From(weir.FromSuccessor)
		}
		return sent, err
	}
	degraded := func() bool {
		t.Helper()
		v, _, o := n.draw(d, 1)
		if v != lot.Charged {
			t.Fatal(v)
		}
		return o.Decision.Degraded()
	}
	fetch := func() {
		n.draw(d, n.held()+1)
		n.land()
	}
	if degraded() {
		t.Error("units of the own server are labeled")
	}
	moved = true
	if fetch(); !degraded() {
		t.Error("units of another server are not labeled")
	}
	moved = false
	if fetch(); !degraded() {
		t.Error("of two lots one is of another server")
	}
	for n.held() > 0 {
		n.true += 10_000_000
		n.draw(d, n.held()+1)
	}
	n.land()
	if fetch(); degraded() {
		t.Error("units of the own server are labeled when it is back")
	}
}
