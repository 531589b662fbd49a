package event

import (
	"time"

	"github.com/weirlimit/weir"
)

// roller makes roll-ups of what limits count anyway.
type roller struct {
	limits func() []Series
	words  words
	// told is what each limit had counted at the last roll-up. A limit that is
	// gone is read once more, and then forgotten.
	told map[*weir.Counters]*account
	from time.Time
}

// account is a limit and what it has told.
type account struct {
	limit  *weir.Limit
	counts [8]uint64 // by weir.Outcome
	alive  bool
}

func newRoller(limits func() []Series) *roller {
	return &roller{limits: limits, words: words{}, told: map[*weir.Counters]*account{}}
}

// learn takes over the words of the limits in use.
func (r *roller) learn() {
	limits := r.limits()
	r.words.add(limits)
	for _, s := range limits {
		c := s.Limit.Counters()
		a := r.told[c]
		if a == nil {
			a = &account{}
			r.told[c] = a
		}
		a.limit, a.alive = s.Limit, true
	}
}

// roll returns what was counted since the last call, one for each limit that
// counted anything.
func (r *roller) roll(now time.Time) []*Rollup {
	for _, a := range r.told {
		a.alive = false
	}
	r.learn()
	var out []*Rollup
	for counters, a := range r.told {
		var counts map[string]uint64
		for _, o := range weir.Outcomes() {
			n := counters.Load(o)
			if n == a.counts[o] {
				continue
			}
			if counts == nil {
				counts = make(map[string]uint64)
			}
			counts[o.String()] = n - a.counts[o]
			a.counts[o] = n
		}
		if counts != nil {
			out = append(out, &Rollup{From: r.from.UTC(), To: now.UTC(), Place: r.words.place(a.limit), Counts: counts})
		}
		if !a.alive && counts == nil {
			delete(r.told, counters)
			delete(r.words, counters)
		}
	}
	r.from = now
	return out
}
