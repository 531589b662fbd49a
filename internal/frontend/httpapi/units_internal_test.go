package httpapi

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// What a decision promises is told in numbers that every reader of JSON has, or as null,
// whatever it was made from.
func TestUnitsFitJSON(t *testing.T) {
	bucket, permits := weir.PerMinute(100, algorithm.TokenBucket), weir.PerMinute(100, algorithm.Concurrency)
	if err := errors.Join(bucket.Compile(), permits.Compile()); err != nil {
		t.Fatal(err)
	}
	promises := []weir.Guarantee{weir.Decision{}.Guarantee(), weir.Decision{Limit: permits}.Guarantee()}
	for source := weir.FromStore; source <= weir.FromSuccessor; source++ {
		promises = append(promises, weir.Decision{Limit: bucket.From(source)}.Guarantee())
	}
	unknown := 0
	for _, g := range promises {
		var got map[string]any
		if err := json.Unmarshal(appendGuarantee(nil, g), &got); err != nil {
			t.Fatal(err)
		}
		for name, n := range map[string]int64{"at_most": g.AtMost, "over_admit": g.OverAdmit, "envelope": g.Envelope} {
			isUnknown := n == weir.Unbounded || name == "envelope" && n == 0
			if isUnknown {
				unknown++
			}
			if told, ok := got[name].(float64); ok == isUnknown || ok && int64(told) != n {
				t.Errorf("%s: %s is %d, and told as %v", g.Source, name, n, got[name])
			}
		}
	}
	if unknown < 5 {
		t.Errorf("only %d numbers are unknown", unknown)
	}
}
