package sharedtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Nodes that are asked by turns admit a full limit at once, to the last unit, from their first
// requests on.
func testTurns(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, x := range []struct {
			count, burst int64
			period       time.Duration
		}{
			{1, 0, time.Minute}, {2, 0, time.Minute}, {9, 0, time.Minute}, {10, 0, time.Minute}, {20, 0, time.Minute}, {30, 0, time.Minute}, {1000, 0, time.Minute}, {1000, 0, time.Hour},
			{100, 0, time.Second}, {1000, 0, time.Second}, {12_000, 1000, time.Minute}, {60_000, 1000, time.Minute}, {10, 100, time.Minute}, {60, 10, time.Minute}, {1000, 40, time.Second},
		} {
			if x.burst > 0 && a.Traits()&weir.Refills == 0 || a == algorithm.SlidingSubwindows && x.period == time.Second {
				continue // as in testWholeLimit
			}
			for _, nodes := range []int{1, 2, 4} {
				virtual(t, fmt.Sprintf("%s, %d in %s, burst %d, %d nodes", a.Name(), x.count, x.period, x.burst, nodes), func(t *testing.T) {
					f := newFleet(t, newNode, nodes, Options{})
					l := compiled(t, &weir.Limit{Algorithm: a, Count: x.count, Period: x.period, Burst: x.burst}, leased)
					aligned(min(x.period, 10*time.Second))
					cells, n, want := make([]int64, l.Cells), int64(0), int64(0)
					for i := range l.Burst + 8*int64(nodes) {
						if l.Algorithm.Step(cells, l, weir.Ask{Now: time.Now().UnixMicro(), Cost: 1}).Allowed() {
							want++
						}
						if f.take(f.nodes[int(i)%nodes], "k", l, 1).Allowed() {
							n++
						}
						if i == l.Burst-1 && n != l.Burst {
							t.Errorf("%d of the first %d requests are allowed", n, l.Burst)
						}
						time.Sleep(20 * time.Microsecond)
					}
					if n != want {
						t.Errorf("%d are allowed, by one store %d", n, want)
					}
				})
			}
		}
	}
}

// So do nodes that share a real Redis and have only just started.
func testRedisTurns(t *testing.T, newNode New) {
	r := servertest.Redis(t)
	for nodes := 1; nodes <= 2; nodes++ {
		for _, a := range lenders() {
			for _, burst := range []int64{1, 2, 9, 10, 20, 30, 1000} {
				rates := []int64{burst}
				if a.Traits()&weir.Refills != 0 {
					rates = append(rates, 200*60) // a fast one
				}
				for _, count := range rates {
					l := &weir.Limit{Name: fmt.Sprint(nodes, a.Name(), burst, count), Algorithm: a, Count: count, Period: time.Minute}
					if l.Burst = burst; a.Traits()&weir.Refills == 0 {
						l.Burst, l.Period = 0, 24*time.Hour
					}
					compiled(t, l, leased)
					var fleet []Node
					for range nodes {
						s, _ := redisNode(t, newNode, r, Options{Timeout: 5 * time.Second})
						fleet = append(fleet, s)
					}
					passed, begin := int64(0), time.Now()
					for i := range burst + 4 {
						d, err := fleet[int(i)%nodes].TakeOne(t.Context(), "k", l, 1)
						if err != nil || d.Guarantee().Degraded {
							t.Fatal(d, err)
						}
						if d.Allowed() {
							passed++
						}
					}
					in := int64(0)
					if a.Traits()&weir.Refills != 0 {
						in = 1 + count*time.Since(begin).Microseconds()/micros.Of(l.Period)
					}
					if passed < burst || passed > burst+in {
						t.Errorf("%s, %d of a burst of %d are allowed by %d nodes, and %d flow in", a.Name(), passed, burst, nodes, in)
					}
				}
			}
		}
	}
}
