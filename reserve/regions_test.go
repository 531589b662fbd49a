package reserve_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/reserve"
)

// Reservations of three regions are committed, canceled and settled again at regions
// drawn at random. Each is settled once, where it was made, and every other try changes
// no counter of any region.
func TestFamilyReservationsOfRegions(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(seeds.Of(t), 3))
	const count = 1_000_000
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		t.Run(a.Name(), func(t *testing.T) {
			var desks [3]*desk
			var left [3]int64
			for i, name := range []string{"eu", "us", "eu2"} {
				desks[i] = newDesk(t, clocked.New(t), weir.Limits{weir.PerHour(count, a)}, reserve.Options{Secret: secret, Region: name})
				left[i] = count
			}
			type made struct {
				handle   string
				home     int
				cost     int64
				settled  bool
				actual   int64
				canceled bool
			}
			var all []*made
			once := 0
			for step := range 600 {
				if at := r.IntN(3); len(all) == 0 || r.IntN(3) == 0 {
					m := &made{home: at, cost: 1 + r.Int64N(100)}
					m.handle = desks[at].reserve(m.cost, "ann")
					left[at] -= m.cost
					all = append(all, m)
				} else {
					m := all[max(len(all)-1-r.IntN(20), 0)]
					var actual int64
					var err error
					canceled := r.IntN(2) == 0
					if !canceled {
						actual = r.Int64N(3)
						_, err = desks[at].Commit(ctx, m.handle, actual)
					} else {
						_, err = desks[at].Cancel(ctx, m.handle)
					}
					var want error
					switch {
					case at != m.home:
						want = reserve.ErrRegion
					case m.settled && (m.actual != actual || m.canceled != canceled):
						want = reserve.ErrSettled
					case m.settled: // the same again
					default:
						m.settled, m.actual, m.canceled = true, actual, canceled
						left[at] += m.cost - actual
						once++
					}
					if !errors.Is(err, want) {
						t.Fatalf("step %d, made in %d, settled in %d: %v, want %v", step, m.home, at, err, want)
					}
				}
				for i, d := range desks {
					d.left(left[i], "ann")
				}
				if t.Failed() {
					t.Fatalf("step %d", step)
				}
			}
			if once < 50 {
				t.Errorf("only %d were settled", once)
			}
		})
	}
}
