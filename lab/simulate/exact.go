package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
)

// leastFilled is by how many users the memory for one is measured at least.
const leastFilled = 100_000

// playBytes bounds the memory for the keys of one play.
const playBytes = 1 << 30

// An outcome is what came of the requests of a slice.
type outcome struct {
	requests, refused int64
	admitted          []int32 // of each user
	// unlimited is how many met no limit.
	unlimited int64
}

func newOutcome(users int) *outcome { return &outcome{admitted: make([]int32, users)} }

// add notes the decision of a request of a user.
func (o *outcome) add(user int, r *weir.Request, d weir.Decision) {
	o.requests++
	if len(r.Ops()) == 0 {
		o.unlimited++
	}
	if d.Allowed() {
		o.admitted[user]++
	} else {
		o.refused++
	}
}

// exact is what one node decides that gets all requests, each at the instant at which a
// call for it would be at the store.
type exact struct {
	*outcome
	common  []string // names of limits by which several users share a counter
	touched int64    // users who came
	memory  Machine  // for them; of more users, if few came
}

// playExact plays a slice on one node.
func playExact(ctx context.Context, q *questions, s *slice, o *Options) (e *exact, err error) {
	e = &exact{outcome: newOutcome(len(s.upTo))}
	var clock atomic.Int64
	clock.Store(epoch)
	store := memory.New(memory.Options{MaxBytes: playBytes, Now: clock.Load})
	defer func() { err = errors.Join(err, store.Close()) }()
	limiter, err := weir.New(store, q.set, weir.Options{})
	if err != nil {
		return nil, err
	}
	owners, empty := newOwners(), store.Stats()
	seen := make([]bool, len(s.upTo))
	for t := newTraffic(s, o.Nodes, o.For, o.Seed); ; {
		a, ok := t.next()
		if !ok {
			break
		}
		if err := checkEvery(ctx, e.requests); err != nil {
			return nil, err
		}
		clock.Store(epoch + a.at + there(o))
		r := limiter.Acquire()
		q.fill(r, a.user, a.choice)
		d, err := limiter.Decide(ctx, r)
		if err != nil {
			return nil, err
		}
		e.add(a.user, r, d)
		owners.note(r.Ops(), a.user)
		if limiter.Recycle(r); !seen[a.user] {
			seen[a.user] = true
			e.touched++
		}
	}
	filled := max(e.touched, leastFilled)
	if err := askOnce(ctx, limiter, q, len(s.upTo), filled-e.touched); err != nil {
		return nil, err
	}
	st := store.Stats()
	e.memory.MeasuredUsers, e.memory.BytesPerUser = filled, float64(st.Bytes-empty.Bytes+st.ApproximateBytes)/float64(filled)
	if e.memory.BytesAtOnce, err = measureFresh(ctx, q); err != nil {
		return nil, err
	}
	e.common = owners.common(q.limits)
	return e, fits(st)
}

// measureFresh returns the bytes of a store for each of leastFilled users who send a
// request at one instant. Nothing expires meanwhile.
func measureFresh(ctx context.Context, q *questions) (bytes float64, err error) {
	store := memory.New(memory.Options{MaxBytes: playBytes, Now: func() int64 { return epoch }})
	defer func() { err = errors.Join(err, store.Close()) }()
	limiter, err := weir.New(store, q.set, weir.Options{})
	if err != nil {
		return 0, err
	}
	empty := store.Stats()
	if err := askOnce(ctx, limiter, q, 0, leastFilled); err != nil {
		return 0, err
	}
	st := store.Stats()
	return float64(st.Bytes-empty.Bytes+st.ApproximateBytes) / leastFilled, fits(st)
}

// askOnce decides a request of each of some users, from one on.
func askOnce(ctx context.Context, limiter *weir.Limiter, q *questions, from int, users int64) error {
	for i := range users {
		r := limiter.Acquire()
		q.fill(r, from+int(i), 0)
		if _, err := limiter.Decide(ctx, r); err != nil {
			return err
		}
		limiter.Recycle(r)
	}
	return nil
}

// there returns how long a call takes to the store, in microseconds.
func there(o *Options) int64 { return o.StoreLatency.Microseconds() / 2 }

// checkEvery returns why to stop, looked at once in a while.
func checkEvery(ctx context.Context, n int64) error {
	if n%1024 != 0 {
		return nil
	}
	return ctx.Err()
}

// fits returns an error if a store of a play was full: it decides by estimates then.
func fits(st memory.Stats) error {
	if st.Overflowed == 0 {
		return nil
	}
	return fmt.Errorf("the slice does not fit into %d MiB of memory: play less with --requests", playBytes>>20)
}

// owners finds limits of which several users share a counter.
type owners struct {
	first map[string]int // by key and limit, the user who came first
	many  map[*weir.Limit]bool
	name  []byte
}

func newOwners() *owners { return &owners{first: map[string]int{}, many: map[*weir.Limit]bool{}} }

func (w *owners) note(ops []weir.Op, user int) {
	for i := range ops {
		o := &ops[i]
		if o.Limit == nil || w.many[o.Limit] {
			continue
		}
		w.name = append(append(append(w.name[:0], o.Limit.Scope...), 0), o.Key...)
		if first, ok := w.first[string(w.name)]; !ok {
			w.first[string(w.name)] = user
		} else if first != user {
			w.many[o.Limit] = true
		}
	}
}

// common returns the names of those limits, in the order of the rules.
func (w *owners) common(limits []*weir.Limit) (names []string) {
	for _, l := range limits {
		if w.many[l] {
			names = append(names, l.Name)
		}
	}
	return names
}
