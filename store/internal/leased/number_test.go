package leased

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// However many keys there are, the store is asked by few limits: it keeps a plan of each.
func TestMarksAreThoseOfALimit(t *testing.T) {
	n := newWorld(t, 1).nodes[0]
	d, asked := n.decider(limited(t, 1000, algorithm.FixedWindow)), map[*weir.Limit]bool{}
	call := n.Fetch
	n.Fetch = func(f *lot.Flight, ops []weir.Op) (clock.Node, error) {
		for i := range ops {
			asked[ops[i].Limit] = true
		}
		return call(f, ops)
	}
	for i := range 50 {
		for range 20 {
			o := weir.Op{Key: fmt.Sprint(i), Limit: d.limit, Cost: 1}
			d.Draw(t.Context(), n.Clock.Now(), &o, nil)
			n.land()
		}
		n.true += 5_000_000
	}
	if len(asked) != 2 {
		t.Errorf("asked by %d limits", len(asked))
	}
}

// A fetch of an earlier entry that comes late is not taken for one of this entry that was
// lost.
func TestLateFetchOfAnEarlierEntryIsNotAdopted(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	count := func() int64 { return 1000 - n.left(d.limit) }
	var strays [][]weir.Op
	call := n.Fetch
	n.Fetch = func(f *lot.Flight, ops []weir.Op) (clock.Node, error) {
		if len(ops) > 1 {
			strays = append(strays, slices.Clone(ops))
		}
		return call(f, ops)
	}
	lose := func() {
		t.Helper()
		n.draw(d, n.held()+1)
		if len(n.flying) != 1 {
			t.Fatalf("%d flights", len(n.flying))
		}
		n.flying[0].loseCall = true
		n.land()
	}
	lose()
	_, g, e := n.Table.LockEntry("k", d.limit)
	g.DropEntry(e)
	g.Unlock()
	n.giveBack()
	spent := count()
	for before := len(strays); len(strays) == before; { // until the new entry numbers its fetches
		if v, _, _ := n.draw(d, 1); v == lot.Charged {
			spent++
		}
		n.land()
	}
	lose()
	stray := strays[0]
	stray[0].Cost = 1
	if n.take(stray); !stray[0].Charged {
		t.Fatalf("%+v", stray)
	}
	n.draw(d, n.held()+1)
	n.land()
	if count() < spent+n.held()+1 {
		t.Errorf("the store counts %d, %d were spent, 1 is lost and %d are held", count(), spent, n.held())
	}
}
