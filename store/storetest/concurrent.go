package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

const workers = 64

// each runs f on every worker at once.
func each(f func(worker int)) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { f(w) })
	}
	wg.Wait()
}

// contention: 64 goroutines on one key, and on a thousand, admit the limit and
// not one more or less.
func (s *suite) contention() {
	for _, a := range algorithm.All {
		limit := compiled(s, perHour("hot "+a.Name(), a.Name(), 100))
		if !s.serves(limit) {
			continue
		}
		var passed, ids atomic.Int64
		each(func(int) {
			for range 8 {
				if s.passes("hot", limit, &ids) {
					passed.Add(1)
				}
			}
		})
		s.admitted(limit, "on one key", passed.Load())

		many := compiled(s, perHour("many "+a.Name(), a.Name(), 3))
		counts := make([]atomic.Int64, 1000)
		if s.Brief {
			counts = counts[:100]
		}
		each(func(w int) {
			for k := range counts {
				// Eight workers for each key.
				if (k+w)%8 == 0 && s.passes(fmt.Sprint(k), many, &ids) {
					counts[k].Add(1)
				}
			}
		})
		for k := range counts {
			s.admitted(many, fmt.Sprintf("on key %d", k), counts[k].Load())
		}
	}
}

// passes spends one unit, now in one way, now in another.
func (s *suite) passes(key string, l *weir.Limit, ids *atomic.Int64) bool {
	id := ids.Add(1)
	if id%2 == 0 && l.Traits()&weir.Leases == 0 {
		d, err := s.store.TakeOne(s.ctx, key, l, 1)
		if err != nil {
			s.Errorf("%s: %v", l.Name, err)
		}
		return err == nil && d.Allowed()
	}
	ops := []weir.Op{{Key: key, Limit: l, Cost: 1, ID: id}}
	if err := s.store.Take(s.ctx, ops); err != nil {
		s.Errorf("%s: %v", l.Name, err)
		return false
	}
	return ops[0].Charged
}

// admitted asserts how many requests passed an exhausted limit.
func (s *suite) admitted(l *weir.Limit, where string, passed int64) {
	if !exact(l) {
		if passed < 1 || passed > l.Count {
			s.Errorf("%s admitted %d %s, its limit is %d", l.Name, passed, where, l.Count)
		}
		return
	}
	if want := admits(l); passed != want {
		s.Errorf("%s admitted %d %s, want %d", l.Name, passed, where, want)
	}
}

// admits returns how many requests of cost 1 a new key of l admits at once.
func admits(l *weir.Limit) int64 {
	m := newModel()
	for n := int64(0); ; n++ {
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, ID: n + 1}}
		if m.take(ops, start); !ops[0].Charged {
			return n
		}
	}
}

// contentionOverThree: requests that meet three limits, named in any order,
// neither wait for each other for ever nor charge one limit without the others.
func (s *suite) contentionOverThree() {
	const keys, perKey, perGroup, total = 32, 10, 40, 200
	one := compiled(s, perHour("per key", bucketName, perKey))
	group := compiled(s, perHour("per group", "sliding_subwindows", perGroup))
	all := compiled(s, perHour("for all", "sliding_window", total))
	var passed [keys]atomic.Int64
	each(func(w int) {
		r := rand.New(rand.NewPCG(uint64(w), 1))
		ops := make([]weir.Op, 3)
		for n := range 4 * keys {
			k := (n + w) % keys
			ops[0] = weir.Op{Key: fmt.Sprint("key", k), Limit: one, Cost: 1}
			ops[1] = weir.Op{Key: fmt.Sprint("group", k%6), Limit: group, Cost: 1}
			ops[2] = weir.Op{Key: "all", Limit: all, Cost: 1}
			r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
			if err := s.store.Take(s.ctx, ops); err != nil {
				s.Errorf("Take: %v", err)
				return
			}
			if ops[0].Charged != ops[1].Charged || ops[1].Charged != ops[2].Charged {
				s.Errorf("charged in part: %s, %s, %s", answer(&ops[0]), answer(&ops[1]), answer(&ops[2]))
			}
			if ops[0].Charged {
				passed[k].Add(1)
			}
		}
	})
	var sum int64
	var groups [6]int64
	for k := range passed {
		n := passed[k].Load()
		s.left(fmt.Sprint("key", k), one, perKey-n)
		groups[k%6] += n
		sum += n
	}
	for i, n := range groups {
		s.left(fmt.Sprint("group", i), group, perGroup-n)
	}
	if sum != total {
		s.Errorf("%d requests passed together, want %d", sum, total)
	}
	s.left("all", all, 0)
}
