package rows

import (
	"testing"

	"github.com/weirlimit/weir/internal/insight/event"
	"pgregory.net/rapid"
)

func TestArrivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []event.Arrival
		at := int64(0)
		for range rapid.IntRange(0, 300).Draw(t, "n") {
			at += rapid.Int64Range(0, 1e9).Draw(t, "gap")
			in = append(in, event.Arrival{AtUS: at, Cost: rapid.Int64Range(0, maxFigure).Draw(t, "cost")})
		}
		i := 0
		err := UnpackArrivals(PackArrivals(in), func(at, cost int64) {
			if in[i] != (event.Arrival{AtUS: at, Cost: cost}) {
				t.Fatalf("%d: %d %d, want %+v", i, at, cost, in[i])
			}
			i++
		})
		if err != nil || i != len(in) {
			t.Fatalf("%d of %d: %v", i, len(in), err)
		}
	})
	if UnpackArrivals([]byte{0x80}, nil) == nil || UnpackArrivals([]byte{1}, nil) == nil {
		t.Error("half an arrival was read")
	}
}
