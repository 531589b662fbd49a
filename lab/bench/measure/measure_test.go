package measure

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestRunSharesTheOperations(t *testing.T) {
	var total atomic.Int64
	r := Run(2, 1000, func(p int, n int64) int64 { total.Add(n); return int64(p) })
	if total.Load() != 1000 || r.Ops != 1000 || r.Refused != 1 {
		t.Errorf("ran %d operations, reports %d and %d refused; want 1000, 1000, 1", total.Load(), r.Ops, r.Refused)
	}
}

func TestRunBesideLeavesAProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	askers := 0
	r := RunAlongside(1000, func(p int, n int64) int64 {
		askers++
		if got := runtime.GOMAXPROCS(0); got != 2 {
			t.Errorf("%d processors, want 2", got)
		}
		return n / 10
	})
	if askers != 1 || r.Ops != 1000 || r.Refused != 100 {
		t.Errorf("%d askers ran %d operations, reports %d refused; want 1, 1000, 100", askers, r.Ops, r.Refused)
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors afterwards, want %d", after, before)
	}
}

// sink keeps the allocation of TestRunCountsAllocations from being removed.
var sink *[64]byte

func TestRunCountsAllocations(t *testing.T) {
	r := Run(1, 10_000, func(_ int, n int64) int64 {
		for range n {
			sink = new([64]byte)
		}
		return 0
	})
	if r.Allocs < 0.99 || r.Allocs > 1.01 {
		t.Errorf("%.3f allocations per operation, want 1", r.Allocs)
	}
	if r.CPU <= 0 || r.Wall <= 0 {
		t.Errorf("no time: %+v", r)
	}
}

func TestSpread(t *testing.T) {
	f := func(want string, samples ...float64) {
		t.Helper()
		if got := SpreadOf(samples).String(); got != want {
			t.Errorf("spread of %v is %s, want %s", samples, got, want)
		}
	}
	f("0 (0–0)")
	f("2.00 (1.00–3.00)", 3, 1, 2)
	f("15.0 (1.00–200)", 10, 200, 20, 1)
}

func TestHistogramQuantiles(t *testing.T) {
	var h Histogram
	for i := 1; i <= 100_000; i++ {
		h.Add(time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0.5: 50_000, 0.99: 99_000, 0.9999: 99_990, 1: 100_000} {
		got := h.Quantile(q)
		if got < want || got > want+want/32+1 {
			t.Errorf("quantile %g is %d, want %d to 1/32 above", q, got, want)
		}
	}
	for _, n := range []uint64{0, 1, 31, 32, 33, 1000, 1 << 40, 1<<63 - 1} {
		i := bucket(n)
		if upper(i) < n || i > 0 && upper(i-1) >= n {
			t.Errorf("%d is in bucket %d, which ends at %d", n, i, upper(i))
		}
	}
}

func TestHeapSeesWhatIsKept(t *testing.T) {
	before := Heap()
	kept := make([]byte, 8<<20)
	// Something else may be freed meanwhile.
	if grown := Heap() - before; grown < 8<<20-64<<10 || grown > 9<<20 {
		t.Errorf("8 MiB kept, heap grew by %d bytes", grown)
	}
	kept[0] = 1
}

func TestProcessCPUIsThatOfTheProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc here")
	}
	before, err := ProcessCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	own := CPU()
	for CPU()-own < 100*time.Millisecond {
	}
	after, err := ProcessCPU(os.Getpid())
	if used := after - before; err != nil || used < 80*time.Millisecond || used > 2*time.Second {
		t.Errorf("used %s, %v; want about 100ms", used, err)
	}
}

func TestMachineIsBusy(t *testing.T) {
	read := func(text string) Machine {
		t.Helper()
		m, err := parseMachine(text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	began := read("cpu  1000 10 100 5000 50 0 40 5 7 0\ncpu0 1 2 3\n")
	ended := read("cpu  1100 20 150 5150 100 10 50 25 9 0\ncpu0 1 2 3\n")
	// 100+10+50+10+10+20 of 200 and 150+50.
	if got := ended.Busy(began); got != 0.5 {
		t.Errorf("busy by %v, want 0.5", got)
	}
	if got := began.Busy(began); got != 0 {
		t.Errorf("busy by %v in no time, want 0", got)
	}
	for _, text := range []string{"", "intr 1", "cpu  1 2 3 4", "cpu  a b c d e f g h"} {
		if m, err := parseMachine(text); err == nil {
			t.Errorf("%q was read as %+v", text, m)
		}
	}
}
