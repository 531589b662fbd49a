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

// Callers leave while they acquire places, one or two at once, on one server, a ring
// and a cluster, one of whose servers stands still meanwhile: no place stays taken that
// nobody was told of.
func TestFamilyLatePlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	each1 := 60
	if os.Getenv("WEIR_SOAK") != "" {
		each1 = 2000
	}
	f := func(kind string, servers []*servertest.RedisServer) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			s := open(t, urlOf(kind, servers), Options{Timeout: long})
			l := &weir.Limit{Name: "places", Algorithm: algorithm.Concurrency, Count: 5000, Period: time.Hour}
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			keys := []string{"ann", "bob", "cid", "dan", "eve", "flo"}
			taken := make([]atomic.Int64, len(keys))
			var ids, left atomic.Int64
			stop := make(chan struct{})
			halted := make(chan struct{})
			go func() {
				defer close(halted)
				for {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
					}
					if err := servers[0].Signal(syscall.SIGSTOP); err != nil {
						t.Error(err)
					}
					time.Sleep(30 * time.Millisecond)
					if err := servers[0].Signal(syscall.SIGCONT); err != nil {
						t.Error(err)
					}
				}
			}()
			each(8, func(c int) {
				rnd := rand.New(rand.NewPCG(uint64(c), 7))
				for range each1 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.Int64N(int64(5*time.Millisecond))))
					if rnd.IntN(4) == 0 {
						time.AfterFunc(time.Duration(rnd.Int64N(int64(time.Millisecond))), cancel)
					}
					var ops []weir.Op
					var of []int
					for _, i := range rnd.Perm(len(keys))[:1+rnd.IntN(2)] {
						ops = append(ops, weir.Op{Key: keys[i], Limit: l, Cost: 1, ID: ids.Add(1), NewLease: true})
						of = append(of, i)
					}
					err := s.Take(ctx, ops)
					if cancel(); err != nil {
						left.Add(1)
						continue
					}
					for _, i := range of {
						taken[i].Add(1)
					}
				}
			})
			close(stop)
			<-halted
			end := time.Now().Add(30 * time.Second)
			for i, key := range keys {
				want := l.Count - taken[i].Load()
				got := int64(-1)
				for ; got != want && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					look := []weir.Op{{Key: key, Limit: l, Verb: weir.Peek}}
					err := s.Take(t.Context(), look)
					if err == nil {
						got = look[0].Decision.Remaining
					} else if !errors.Is(err, ErrBusy) { // calls that were left may still fill the queue
						t.Fatal(err)
					}
				}
				if got != want {
					t.Errorf("%s: %d places are free, %d are taken of which somebody knows, of %d", key, got, taken[i].Load(), l.Count)
				}
			}
			if left.Load() == 0 {
				t.Error("no caller left: nothing was tested")
			}
			t.Log(fmt.Sprint(left.Load(), " callers left"))
		}
	}
	t.Run("one", f("redis", []*servertest.RedisServer{servertest.Redis(t)}))
	t.Run("ring", f("redis+ring", newRing(t, 2)))
	t.Run("cluster", f("redis+cluster", servertest.RedisCluster(t, 3)))
}
