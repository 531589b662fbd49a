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
	if len(asked) < 3 || len(asked) > 1+len(lot.Marks{}) {
		t.Errorf("asked by %d limits", len(asked))
	}
}

// A fetch of an earlier entry that comes late is not taken for one of this entry that was
// lost, and had the same number.
func TestLateFetchOfAnEarlierEntryIsNotAdopted(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	count := func() int64 { return 1000 - n.left(d.limit) }
	_, g, e := n.Table.Find("k", d.limit)
	s := e.State.(*state)
	g.Unlock()
	if !s.number.sure {
		t.Fatalf("%+v", s.number)
	}
	var stray []weir.Op
	call := n.Fetch
	n.Fetch = func(f *lot.Flight, ops []weir.Op) (clock.Node, error) {
		if stray == nil {
			stray = slices.Clone(ops)
		}
		return call(f, ops)
	}
	n.draw(d, n.held()+1)
	n.flying[0].loseCall = true
	n.land()
	g.Lock()
	g.Drop(e)
	g.Unlock()
	n.giveBack()
	spent := count()
	for s = (&state{}); s.number.turn == 0; {
		if v, _, _ := n.draw(d, 1); v == lot.Charged {
			spent++
		}
		n.land()
		_, g, e = n.Table.Find("k", d.limit)
		s = e.State.(*state)
		g.Unlock()
	}
	n.draw(d, n.held()+1)
	if len(stray) != 2 || s.number.sure || s.number.counted < 0 || len(n.flying) != 1 {
		t.Fatalf("%d ops, %+v, %d flights", len(stray), s.number, len(n.flying))
	}
	n.flying[0].loseCall = true
	n.land()
	stray[0].Cost = 1
	n.take(stray)
	if stray[1].Limit != d.marks[s.number.turn%int64(len(d.marks))] || !stray[0].Charged {
		t.Fatalf("%+v", stray)
	}
	n.draw(d, n.held()+1)
	n.land()
	if count() < spent+n.held()+1 {
		t.Errorf("the store counts %d, %d were spent, 1 is lost and %d are held", count(), spent, n.held())
	}
}
