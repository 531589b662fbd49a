package httpapi

import (
	"encoding/json"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// What a decision promises is told in numbers that every reader of JSON has, or as null,
// whatever it was made from.
func TestUnitsFitJSON(t *testing.T) {
	l := weir.PerMinute(100, algorithm.TokenBucket)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	unbounded := 0
	for source := weir.FromStore; source <= weir.FromSuccessor; source++ {
		g := weir.Decision{Limit: l.From(source)}.Guarantee()
		var got map[string]any
		if err := json.Unmarshal(appendGuarantee(nil, g), &got); err != nil {
			t.Fatal(err)
		}
		for name, n := range map[string]int64{"at_most": g.AtMost, "over_admit": g.OverAdmit, "envelope": g.Envelope} {
			if n == weir.Unbounded {
				unbounded++
			}
			if told, ok := got[name].(float64); ok != (n != weir.Unbounded) || ok && int64(told) != n {
				t.Errorf("%s: %s is %d, and told as %v", g.Source, name, n, got[name])
			}
		}
	}
	if unbounded == 0 {
		t.Error("no source is without a number")
	}
}
