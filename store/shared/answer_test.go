package shared_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// deadStore answers nothing.
type deadStore struct{ weir.Store }

func (deadStore) Take(context.Context, []weir.Op) error { return errors.New("connection refused") }

// A request that is used again gives back by the answer of the last decision on it, as one
// that is used for the first time does: whatever decided before it, and of which algorithm.
func TestReusedRequestRefundsAsFreshOne(t *testing.T) {
	algorithms := []weir.Algorithm{
		algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.LeakyQueue, algorithm.FixedWindow,
		algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows, algorithm.SlidingLog,
	}
	bubble.Test(t, func(t *testing.T) {
		store, local := memory.New(memory.Options{}), memory.New(memory.Options{})
		defer store.Close()
		defer local.Close()
		open := func(over weir.Store) *shared.Store {
			s, err := shared.New(over, shared.Options{Local: local})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		node, cut := open(store), open(deadStore{store})
		defer node.Close()
		defer cut.Close()
		type decider struct {
			name string
			*weir.Limiter
		}
		var deciders []decider
		for _, a := range algorithms {
			for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual, params.ConsistencyLocal} {
				if a.Traits()&weir.Lends == 0 && (mode == params.ConsistencyLeased || mode == params.ConsistencyEventual) {
					continue
				}
				for i, s := range []weir.Store{node, cut, store} {
					l := weir.PerSecond(100, a)
					l.Consistency.Mode = mode
					lim, err := weir.New(s, weir.Limits{l}, weir.Options{})
					if err != nil {
						t.Fatal(err)
					}
					deciders = append(deciders, decider{fmt.Sprint(a.Name(), " ", mode, []string{"", " cut off", " in memory"}[i]), lim})
				}
			}
		}
		decide := func(d decider, r *weir.Request, key string, cost int64, verb weir.Verb) weir.Decision {
			r.Reset()
			r.Descriptors, r.Cost, r.Verb = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: key}}}), cost, verb
			got, err := d.Decide(t.Context(), r)
			if err != nil {
				t.Fatal(d.name, err)
			}
			return got
		}
		for n, before := range deciders {
			if n%3 != 0 {
				continue // those of the node leave all that there is to leave
			}
			used := new(weir.Request)
			for range 5 {
				decide(before, used, "before", 5, weir.Spend)
				time.Sleep(200 * time.Millisecond)
			}
			for _, d := range deciders {
				var left [2]int64
				for i, r := range []*weir.Request{used, {}} {
					key := fmt.Sprint(n, i)
					decide(d, r, key, 50, weir.Spend)
					if err := d.Cancel(t.Context(), r); err != nil {
						t.Fatal(d.name, err)
					}
					left[i] = decide(d, new(weir.Request), key, 1, weir.Peek).Remaining
				}
				if left[0] != left[1] {
					t.Errorf("%s after %s: %d remain after a cancel by a used request, %d by a fresh one", d.name, before.name, left[0], left[1])
				}
				decide(before, used, "before", 5, weir.Spend)
			}
		}
	})
}
