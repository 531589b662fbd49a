package sharedtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A region that is added in the documented order hears of a key what others admitted
// before with the key's next units. Of a key that only the new region is asked about it
// hears nothing: it admits the limit once more in the window that is open, as is
// documented, and not in the next.
func testRegionAdded(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow} {
		virtual(t, a.Name(), func(t *testing.T) {
			const count, over = 1000, 120
			aligned(time.Minute)
			w := worldOf(t, newNode, 3, 0, Options{})
			l := compiled(t, weir.PerMinute(count, a), eventual(over))
			old := []Node{w.list(0, 0, 1), w.list(1, 0, 1)}
			busy, idle := w.offer("busy", l, 300, old...), w.offer("idle", l, 300, old...)
			if busy < 590 || idle < 590 {
				t.Fatalf("only %d and %d passed", busy, idle)
			}
			time.Sleep(time.Second)
			w.close(old...)
			all := []Node{w.list(0, 0, 1, 2), w.list(1, 0, 1, 2)}
			busy += w.offer("busy", l, 5, all...)
			time.Sleep(time.Second)
			all = append(all, w.list(2, 0, 1, 2))
			busy += w.offer("busy", l, 1000, all...)
			idle2 := w.offer("idle", l, 1100, all[2])
			if busy > count+over || busy < count*9/10 {
				t.Errorf("%d of %d and %d admitted of a key in use", busy, count, over)
			}
			if idle2 > count || idle+idle2 > 2*count {
				t.Errorf("%d admitted of an idle key, and %d by the new region", idle, idle2)
			}
			// In the next window all know of all. (A sliding one ends a period later.)
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(2 * time.Minute)))
			if n := w.offer("idle", l, 2000, all...); n > count+over || n < count*9/10 {
				t.Errorf("%d of %d and %d admitted in the next window", n, count, over)
			}
		})
	}
}

// A region that is gone stops the others until it is removed from their lists; then
// they go on, and what all admitted keeps to the bound.
func testRegionRemoved(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		for _, reported := range []bool{true, false} {
			virtual(t, fmt.Sprint(a.Name(), ", told ", reported), func(t *testing.T) {
				const count, over = 1000, 120
				aligned(time.Hour)
				w := worldOf(t, newNode, 3, 0, Options{})
				l := compiled(t, weir.PerHour(count, a), eventual(over))
				all := []Node{w.list(0, 0, 1, 2), w.list(1, 0, 1, 2), w.list(2, 0, 1, 2)}
				total := w.offer("k", l, 100, all...)
				time.Sleep(time.Second)
				for i := range 3 {
					if !reported {
						// What it admits last it cannot report.
						w.paths[2][i].set(down)
					}
				}
				total += w.offer("k", l, 100, all[2])
				time.Sleep(time.Second)
				w.close(all[2])
				w.stores[2].set(down)
				for i := range 2 {
					w.paths[i][2].set(down)
				}
				total += w.offer("k", l, 300, all[:2]...)
				if n := w.offer("k", l, 50, all[:2]...); n != 0 || total >= count {
					t.Errorf("%d and %d admitted that the region that is gone was not told of", total, n)
				}
				w.close(all[:2]...)
				rest := []Node{w.list(0, 0, 1), w.list(1, 0, 1)}
				total += w.offer("k", l, 1000, rest...)
				w.stores[2].set(none)
				most := int64(count + over)
				if !reported {
					most += over / 2
				}
				if a == algorithm.TokenBucket {
					most += 10 // which flow in meanwhile
				}
				if total > most || total < count*9/10 {
					t.Errorf("%d admitted of %d, at most %d", total, count, most)
				}
			})
		}
	}
}
