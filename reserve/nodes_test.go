package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// What was charged is given back to the store that has counted it and to no other: the one
// that nodes share, or that of a single node; and also where a reload between has changed
// which one counts.
func TestSettlementsFindTheStoreThatCounted(t *testing.T) {
	const count, cost = 100, 60
	ctx := context.Background()
	modes := []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual, params.ConsistencyLocal}
	bubble.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		var rules [2]reloadedRules
		var desks [2]*reserve.Reserver
		var limiters [2]*weir.Limiter
		for i := range desks {
			local := memory.New(memory.Options{})
			defer local.Close()
			s, err := shared.New(store, shared.Options{Local: local, Nodes: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if limiters[i], err = weir.New(s, &rules[i], weir.Options{}); err != nil {
				t.Fatal(err)
			}
			if desks[i], err = reserve.New(limiters[i], reserve.Options{Secret: secret}); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket, algorithm.SlidingLog} {
			for _, before := range modes {
				for _, after := range modes {
					if holds := func(m params.ConsistencyMode) bool {
						return m == params.ConsistencyLeased || m == params.ConsistencyEventual
					}; a.Traits()&weir.Lends == 0 && (holds(before) || holds(after)) {
						continue
					}
					for at := range desks {
						for _, actual := range []int64{0, 20, 80} {
							n++
							key, what := fmt.Sprint("key ", n), fmt.Sprint(a.Name(), ", made as ", before, " on node 0, settled as ", after, " on node ", at, " as ", actual)
							load := func(mode params.ConsistencyMode) {
								l := weir.PerHour(count, a)
								l.Consistency.Mode = mode
								if err := l.Compile(); err != nil {
									t.Fatal(err)
								}
								for i := range rules {
									rules[i].version.Store(l)
								}
							}
							load(before)
							res, err := desks[0].Reserve(ctx, requestOf(key, cost))
							if err != nil || res.Handle == "" {
								t.Fatal(what, err)
							}
							load(after)
							// What the counters of the new mode have before, as others see it.
							spend := func(units int64) {
								for i := range limiters {
									r := requestOf(key, units)
									if _, err := limiters[i].Decide(ctx, r); err != nil {
										t.Fatal(what, err)
									}
									if after != params.ConsistencyLocal {
										break
									}
								}
							}
							spend(30)
							left := func() (n [2]int64) {
								for i := range n {
									r := requestOf(key, 1)
									r.Verb = weir.Peek
									d, err := limiters[i].Decide(ctx, r)
									if err != nil {
										t.Fatal(what, err)
									}
									n[i] = d.Remaining
								}
								return n
							}
							was := left()
							_, err = desks[at].Commit(ctx, res.Handle, actual)
							if isLocal := before == params.ConsistencyLocal; isLocal && at == 1 {
								if !errors.Is(err, weir.ErrNode) {
									t.Errorf("%s: %v, want %v", what, err, weir.ErrNode)
								}
							} else if err != nil {
								t.Errorf("%s: %v", what, err)
							}
							now := left()
							isSame := (before == params.ConsistencyLocal) == (after == params.ConsistencyLocal)
							for i := range now {
								if gained := now[i] - was[i]; gained > 0 && (!isSame || before == params.ConsistencyLocal && i != 0) {
									t.Errorf("%s: node %d has %d units more", what, i, gained)
								}
							}
							if isSame && err == nil && now[at] == was[at] {
								t.Errorf("%s: nothing was given back", what)
							}
						}
					}
				}
			}
		}
	})
}

func requestOf(key string, cost int64) *weir.Request {
	return &weir.Request{Cost: cost, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: key}}}}}
}
