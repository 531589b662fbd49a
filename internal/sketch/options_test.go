package sketch_test

import (
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

func TestWindowOptions(t *testing.T) {
	refused := func(o sketch.WindowOptions) {
		t.Helper()
		if _, err := sketch.NewWindow(o); err == nil {
			t.Errorf("NewWindow(%+v) succeeded", o)
		}
	}
	refused(sketch.WindowOptions{})
	refused(sketch.WindowOptions{Period: -1})
	refused(sketch.WindowOptions{Period: 1, SubWindows: 65})
	refused(sketch.WindowOptions{Period: 1, SubWindows: -1})
	refused(sketch.WindowOptions{Period: 1, Units: 1000}) // no limit
	refused(sketch.WindowOptions{Period: 1, Units: -1})
	refused(sketch.WindowOptions{Period: 1, MaxError: 2})
	refused(sketch.WindowOptions{Period: 1, MaxError: math.NaN()})
	refused(sketch.WindowOptions{Period: 1, Depth: 17})
	refused(sketch.WindowOptions{Period: 1, Width: -1})
	refused(sketch.WindowOptions{Period: 1, Keys: -1})
	refused(sketch.WindowOptions{Period: 1, BloomBits: -1})
	refused(sketch.WindowOptions{Period: 1, BloomHashes: 33})
	refused(sketch.WindowOptions{Period: 1, Shards: 3})
	refused(sketch.WindowOptions{Period: 1, Shards: 2048})
	refused(sketch.WindowOptions{Period: 1, Shards: 64, Width: 32})
	refused(sketch.WindowOptions{Period: 1, SampleEvery: 1<<32 + 1})
	refused(sketch.WindowOptions{Period: 1, SampleKeys: -1})
	refused(sketch.WindowOptions{Period: 1, SampleKeys: 1<<16 + 1})
	refused(sketch.WindowOptions{Period: 1, Units: 1 << 40, Limit: 10})
	refused(sketch.WindowOptions{Period: 1, Width: 1 << 24}) // 320 MiB a row
	refused(sketch.WindowOptions{Period: 1, MaxBytes: 1000})

	f := func(o sketch.WindowOptions, shards int, bytes int64) {
		t.Helper()
		o.Period, o.SampleEvery = 60*second, -1
		w := window(t, o)
		if w.Shards() != shards || w.Bytes() < bytes || w.Bytes() > bytes+bytes/100 {
			t.Errorf("NewWindow(%+v): %d shards, %d bytes; want %d, %d", o, w.Shards(), w.Bytes(), shards, bytes)
		}
	}
	bloom := int64(958_506 / 8)                                     // 100,000 keys at 0.01
	f(sketch.WindowOptions{}, 16, 5*(4*4*65536+bloom))              // 5.8 MiB
	f(sketch.WindowOptions{SubWindows: 1}, 16, 2*(4*4*65536+bloom)) //
	f(sketch.WindowOptions{Width: 1000, Depth: 5, BloomBits: 100_000, BloomHashes: 3}, 4, 5*(4*5*1024+12_512))
	// e*(5/4)*1M/(0.1*1000) = 33,979 columns
	f(sketch.WindowOptions{Units: 1_000_000, Limit: 1000, MaxError: 0.1}, 16, 5*(4*4*65536+bloom))
	f(sketch.WindowOptions{Units: 10_000_000, Limit: 1000, MaxError: 0.1, Keys: 1_000_000}, 64, 5*(4*4*(1<<19)+10*bloom))
}
