package event

import "sync/atomic"

// watch remembers the keys that were limited a short while ago, so that what
// they are allowed is told too: whether a client obeys Retry-After shows only in
// what it does next.
//
// It is a table without chains: a key forgets another that falls on its place.
// An entry is the upper 56 bits of a key's hash and, below, the era in which it
// was seen last. Which keys are told is all that depends on it.
type watch struct {
	era     atomic.Uint64
	entries [watchSize]atomic.Uint64
}

const (
	watchSize = 4096 // 32 KiB, which fit into the first cache
	// watchEras is how many eras a key is watched.
	watchEras = 10
)

func (w *watch) addHash(hash uint64) {
	entry := hash&^0xff | w.era.Load()&0xff
	// Most refusals are of a key that is watched already.
	if cell := &w.entries[hash>>8%watchSize]; cell.Load() != entry {
		cell.Store(entry)
	}
}

func (w *watch) hasHash(hash uint64) bool {
	e := w.entries[hash>>8%watchSize].Load()
	return (e^hash)>>8 == 0 && e != 0 && uint8(w.era.Load())-uint8(e) < watchEras
}

// beginEra begins the next era.
func (w *watch) beginEra() {
	era := w.era.Add(1)
	for i := range w.entries {
		// What is not forgotten in time would be young again 256 eras later.
		if e := w.entries[i].Load(); e != 0 && uint8(era)-uint8(e) >= watchEras {
			w.entries[i].CompareAndSwap(e, 0)
		}
	}
}
