package memory

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// sweepEvery is how often the background work does a part of its round.
	sweepEvery = time.Second
	// sweepRounds is over how many ticks a round over all tables is spread.
	sweepRounds = 30
)

// A sweeper is the background work of a store.
type sweeper struct {
	clock    *clock
	tables   *tables
	sketches *sketches
	logger   *slog.Logger
	stop     chan struct{}
	done     sync.WaitGroup
	full     bool // as last reported
}

// sweepUntilStop gives back, little by little, the memory of keys that expired and did not come
// again, until stop is closed.
func (w *sweeper) sweepUntilStop() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for part := 0; ; part = (part + 1) % sweepRounds {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		now := w.clock.now(0)
		w.sweepPart(now, part)
		w.logFullness(now)
	}
}

// sweepPart does one of sweepRounds parts of a round.
func (w *sweeper) sweepPart(now int64, part int) {
	w.tables.arena.dropSpare()
	w.tables.bySize[maxDirect+1].slabs.dropSpare()
	w.sketches.dropWindows(now)
	for _, t := range w.tables.bySize[1:] {
		for i := part; i < tops; i += sweepRounds {
			t.sweepTop(&t.tops[i], now)
		}
	}
}

// logFullness logs when the store becomes full and when it is no longer. It runs in
// the background: nobody waits for a log.
func (w *sweeper) logFullness(now int64) {
	live := w.sketches.expireOverflows(now)
	switch {
	case live > 0 && !w.full:
		w.full = true
		w.logger.Warn("memory store full; new keys are decided from a sketch and may be refused early; raise max_bytes",
			"bytes", w.tables.arena.bytes.Load(), "max_bytes", w.tables.arena.maxBytes+w.sketches.maxBytes)
	case live == 0 && w.full:
		w.full = false
		w.logger.Warn("memory store below its maximum; all keys are decided exactly",
			"overflowed_decisions", w.sketches.overflowed.Load())
	}
}
