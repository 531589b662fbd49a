package memory

import (
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/params"
)

// A windowKey says which approximate limits share a sketch: versions of the same
// limit with the same period and size. A new count needs no new sketch.
type windowKey struct {
	id     uint64
	period int64
	size   params.SketchOptions
}

func windowKeyOf(l *weir.Limit) windowKey {
	return windowKey{id: l.ID(), period: micros.Of(l.Period), size: l.Sketch}
}

// Restarts says why a store of this kind counts l from zero where it has counted for
// old, an earlier version of the same limit; empty if it goes on.
func Restarts(l, old *weir.Limit) string {
	why := l.Restarts(old)
	if why == "" && l.Traits()&weir.Sketches != 0 && windowKeyOf(l) != windowKeyOf(old) {
		why = "a sketch is of one period and size"
	}
	return why
}

// windowFor returns the sketch of an approximate limit, which it makes if there is
// none yet.
func (k *sketches) windowFor(l *weir.Limit) (*sketch.Window, error) {
	key := windowKeyOf(l)
	if w := k.live.Load().windows[key]; w != nil {
		return w, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	set := k.live.Load()
	if w := set.windows[key]; w != nil {
		return w, nil
	}
	w, err := sketch.NewWindow(windowOptions(l))
	if err != nil {
		return nil, fmt.Errorf("store memory: limit %q: %w", l.Name, err)
	}
	next := set.clone()
	next.windows[key] = w
	k.live.Store(next)
	return w, nil
}

// dropWindows drops the windows that count nothing any more and whose limit has
// another one: those of a period or size that the rules had before. Limits of one
// rule, its tiers and overrides, may have several at once.
func (k *sketches) dropWindows(now int64) {
	of := func(set *sketchSet) map[uint64]int {
		n := make(map[uint64]int, len(set.windows))
		for key := range set.windows {
			n[key.id]++
		}
		return n
	}
	if set := k.live.Load(); len(of(set)) == len(set.windows) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.live.Load().clone()
	n := of(next)
	for key, w := range next.windows {
		if n[key.id] > 1 && w.IsExpired(now-grace) {
			delete(next.windows, key)
			n[key.id]--
		}
	}
	k.live.Store(next)
}

// Check says why a store of this kind cannot serve l, nil if it can: an
// approximate limit whose sketch cannot be had, or would need more memory than
// is sensible, is better refused when the rules are loaded than at its first
// decision.
func Check(l *weir.Limit) error {
	if l.Traits()&weir.Sketches == 0 {
		return nil
	}
	return windowOptions(l).Check()
}

// windowOptions sizes the sketch of l. The bound on the error that sizing by a
// load rests on is a worst case, and conservative update stays far below it: so
// who expects no particular load gets a fixed size, as params.SketchOptions says.
func windowOptions(l *weir.Limit) sketch.WindowOptions {
	o := l.Sketch
	w := sketch.WindowOptions{
		Period: micros.Of(l.Period), SubWindows: o.Generations, Limit: l.Count,
		Units: o.Expect, MaxError: float64(o.ErrorPermille) / 1000, Keys: o.Expect,
		Depth: o.Depth, Width: o.Width, BloomBits: o.BloomBits, BloomHashes: o.BloomHashes,
	}
	if o.Expect == 0 {
		w.Keys = 1_000_000
		if o.Width == 0 {
			w.Width = 1 << 18
		}
	}
	return w
}

// oneSketched decides a key of an approximate limit.
func (s *Store) oneSketched(key string, l *weir.Limit, a weir.Ask) (weir.Decision, int64, error) {
	w, err := s.sketches.windowFor(l)
	if err != nil {
		return weir.Decision{}, 0, err
	}
	tag := s.tables.tagOfKey(key, l)
	// The segment that would hold the key is locked for its sake: between the
	// look and the charge of a decision over several limits nobody may spend.
	g := s.tables.bySize[1].lockSegment(tag)
	a.Now = g.decisionTime(s.clock)
	d := stepWindow(w, tag, l, a)
	g.mu.Unlock()
	return d, a.Now, nil
}

// stepWindow is the Step of an approximate limit.
func stepWindow(w *sketch.Window, tag uint64, l *weir.Limit, a weir.Ask) weir.Decision {
	var d weir.Decision
	switch a.Verb {
	case weir.Spend:
		d = fromWindow(w.Spend(tag, a.Now, a.Cost, l.Count))
	case weir.Force:
		// Whether a Spend would have passed is told by the state before.
		before := w.Peek(tag, a.Now, a.Cost, l.Count)
		d = fromWindow(w.Force(tag, a.Now, a.Cost, l.Count))
		d.RetryAfter = fromWindow(before).RetryAfter
	default:
		d = fromWindow(w.Peek(tag, a.Now, a.Cost, l.Count))
	}
	d.Limit = l
	return d
}

// fromWindow returns the answer of a sketch as a decision under no limit.
func fromWindow(d sketch.Decision) weir.Decision {
	out := weir.Decision{Remaining: d.Remaining, ResetAfter: micros.Duration(d.ResetAfter)}
	if !d.Allowed {
		out.RetryAfter = weir.Never
		if d.RetryAfter != sketch.Never {
			out.RetryAfter = micros.Duration(max(d.RetryAfter, 1))
		}
	}
	return out
}
