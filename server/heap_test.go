package server

import (
	"runtime"
	"testing"
)

func TestHeapGrowth(t *testing.T) {
	for memory, want := range map[int64]uint64{
		1 << 28: 64 << 20, 4 << 30: 64 << 20, 8 << 30: 128 << 20, 32 << 30: 512 << 20, 1 << 50: 512 << 20,
	} {
		if got := heapGrowth(memory); got != want {
			t.Errorf("with %d bytes: %d, want %d", memory, got, want)
		}
	}
}

func TestHeapPercent(t *testing.T) {
	k := keeper{growth: 64 << 20}
	for _, tt := range []struct {
		alive       uint64
		least, most uint64 // the heap at which the collector begins
	}{
		{0, 68 << 20, 77 << 20},
		{1 << 20, 68 << 20, 77 << 20},
		{10 << 20, 74 << 20, 83 << 20},
		{30 << 20, 94 << 20, 103 << 20},
		{63 << 20, 127 << 20, 136 << 20},
		{64 << 20, 128 << 20, 128 << 20},
		{10 << 30, 20 << 30, 20 << 30},
	} {
		if begin := max(tt.alive, 4<<20) * uint64(100+k.percent(tt.alive)) / 100; begin < tt.least || begin > tt.most {
			t.Errorf("%d alive: collected at %d, want %d to %d", tt.alive, begin, tt.least, tt.most)
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
