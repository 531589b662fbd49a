package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Callers with deadlines of every kind lose no server of a ring and no range of a
// cluster that is well, and move no key: of a limit that is used up not one unit more
// is admitted.
func TestFamilyCallersDeadlinesOfParts(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"ring":    urlOf("redis+ring", newRing(t, 3)),
		"cluster": urlOf("redis+cluster", servertest.RedisCluster(t, 3)),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, url, Options{Timeout: long})
			ls := []*weir.Limit{perHour(t, 3, algorithm.FixedWindow), perHour(t, 3, algorithm.SlidingLog)}
			const keys = 30
			op := func(i, j int) weir.Op { return weir.Op{Key: fmt.Sprint("user:", i), Limit: ls[j], Cost: 1} }
			for i := range keys {
				for j := range ls {
					o := op(i, j)
					o.Cost = 3
					if err := s.Take(t.Context(), []weir.Op{o}); err != nil {
						t.Fatal(err)
					}
				}
			}
			asks, admitted, failed := 2000, atomic.Int64{}, atomic.Int64{}
			if os.Getenv("WEIR_SOAK") != "" {
				asks = 50_000
			}
			each(8, func(c int) {
				rnd := rand.New(rand.NewPCG(1, uint64(c)))
				for range asks / 8 {
					ctx, cancel := context.WithTimeout(context.Background(), []time.Duration{
						time.Microsecond, -1, 20 * time.Microsecond, 100 * time.Microsecond, time.Duration(rnd.Int64N(int64(2 * time.Millisecond))),
					}[rnd.IntN(5)])
					if rnd.IntN(5) == 0 {
						cancel()
					}
					ops := []weir.Op{op(rnd.IntN(keys), rnd.IntN(2))}
					if rnd.IntN(2) == 0 {
						ops = append(ops, op(rnd.IntN(keys), rnd.IntN(2)))
					}
					err := s.Take(ctx, ops)
					cancel()
					switch {
					case err == nil && weir.Fold(ops).Allowed():
						admitted.Add(1)
					case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
						failed.Add(1)
					case err != nil:
						t.Errorf("%v", err)
					}
				}
			})
			st := s.Stats()
			if admitted.Load() != 0 || st.LostServers != 0 || st.LostSlots != 0 || st.Moved != 0 {
				t.Errorf("%d admitted of limits that were used up; %d servers and %d slots were lost, %d decisions moved",
					admitted.Load(), st.LostServers, st.LostSlots, st.Moved)
			}
			if failed.Load() == 0 {
				t.Error("no caller left: nothing was tested")
			}
		})
	}
}

// A server of a ring that stands still is lost by the calls of impatient callers too:
// it is judged by what becomes of them.
func TestImpatientCallersLoseAServerThatStandsStill(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 2)
	s := open(t, urlOf("redis+ring", servers), Options{Timeout: long})
	l := perHour(t, 3, algorithm.FixedWindow)
	if err := servers[0].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the server to be lost", func() bool {
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := s.TakeOne(ctx, fmt.Sprint(i), l, 1)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrBusy) && !errors.Is(err, errLost) {
				t.Fatal(err)
			}
		}
		return s.Stats().LostServers == 1
	})
}
