package server

import (
	"runtime"
	"testing"
)

func TestHeapPercent(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		memory      int64
		alive       uint64
		least, most uint64 // the heap at which the collector begins
	}{
		// Little memory.
		{1 << 30, 0, 68 * mib, 77 * mib},
		{1 << 30, 1 * mib, 68 * mib, 77 * mib},
		{1 << 30, 10 * mib, 74 * mib, 83 * mib},
		{1 << 30, 30 * mib, 94 * mib, 103 * mib},
		{1 << 30, 63 * mib, 127 * mib, 136 * mib},
		{1 << 30, 64 * mib, 128 * mib, 128 * mib},
		{1 << 30, 10 << 30, 20 << 30, 20 << 30},
		// Enough for 256 MiB, and for more than there may be.
		{16 << 30, 10 * mib, 74 * mib, 83 * mib},
		{16 << 30, 20 * mib, 100 * mib, 110 * mib},
		{16 << 30, 60 * mib, 300 * mib, 330 * mib},
		{16 << 30, 100 * mib, 356 * mib, 390 * mib},
		{16 << 30, 400 * mib, 800 * mib, 800 * mib},
		{1 << 40, 200 * mib, 712 * mib, 780 * mib},
		{1 << 40, 600 * mib, 1200 * mib, 1200 * mib},
	} {
		p := newKeeper(tt.memory).percent(tt.alive)
		if begin := max(tt.alive, 4*mib) * uint64(100+p) / 100; begin < tt.least || begin > tt.most {
			t.Errorf("%d alive of %d: collected at %d, want %d to %d", tt.alive, tt.memory, begin, tt.least, tt.most)
		}
	}
}

func TestAliveHeap(t *testing.T) {
	// So large that what other tests of the process leave behind does not matter
	// when it goes meanwhile. Nothing writes to it, so it takes no memory.
	const size = 512 << 20
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	before := aliveHeap()
	block := make([]byte, size)
	runtime.GC()
	if after := aliveHeap(); after < before+size*9/10 {
		t.Errorf("%d bytes are alive after %d more than %d", after, size, before)
	}
	runtime.KeepAlive(block)
}
