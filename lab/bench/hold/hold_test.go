package hold

import (
	"testing"

	"github.com/weirlimit/weir/lab/bench/peer"
)

// keeper is a limiter that keeps a known amount for each key.
func keeper(bytes int, admits int) func() (peer.Allow, func(), error) {
	return func() (peer.Allow, func(), error) {
		var kept [][]byte
		return func(string) bool {
			kept = append(kept, make([]byte, bytes))
			return len(kept) <= admits
		}, func() { kept = nil }, nil
	}
}

func TestFillMeasuresWhatIsKept(t *testing.T) {
	const n = 50_000
	h, err := Fill(keeper(512, n), n)
	if err != nil {
		t.Fatal(err)
	}
	// 24 bytes more are the slice's header, of which up to twice as many are
	// made as are used.
	if h.Heap < 512+24 || h.Heap > 512+24*2+8 {
		t.Errorf("%.1f bytes a key, want 536 to 568", h.Heap)
	}
	if h.Keys != n || h.P50 <= 0 || h.P50 > h.P99 || h.P99 > h.P9999 || h.P9999 > h.Longest || h.GC.Median <= 0 {
		t.Errorf("%+v", h)
	}
}

func TestFillStopsAtARefusal(t *testing.T) {
	if _, err := Fill(keeper(8, 99), 100); err == nil {
		t.Error("a refusal was measured as if it had been kept")
	}
}
