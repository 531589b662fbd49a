package rules_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/rules"
)

// Options.Consistency is how all limits count that can, and the others count strictly.
func TestConsistencyOfAllLimits(t *testing.T) {
	const text = `domain: api
descriptors:
  - {key: window, limit: 100/minute, consistency: eventual}
  - {key: log, limit: 100/minute, algorithm: sliding_log}
  - {key: first, limit: 100/minute, algorithm: fixed_window, anchor: first_request}
  - {key: alone, limit: {limit: 100/minute, scope: node}}
  - {key: sketch, limit: 100/minute, algorithm: approximate}
`
	const asWritten, strict, leased, eventual, local = params.ConsistencyDefault, params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual, params.ConsistencyLocal
	for mode, want := range map[params.ConsistencyMode][5]params.ConsistencyMode{
		asWritten: {eventual, asWritten, asWritten, local, asWritten},
		strict:    {strict, strict, strict, local, asWritten},
		leased:    {leased, strict, leased, local, asWritten},
		eventual:  {eventual, strict, strict, local, asWritten},
		local:     {local, local, local, local, local},
	} {
		set, err := rules.Parse("test", []byte(text), rules.Options{Consistency: mode})
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range set.Limits() {
			if got := l.Consistency.Mode; got != want[i] {
				t.Errorf("%s: %s counts %s, want %s", mode, l.Name, got, want[i])
			}
		}
	}
}

// A limit of any algorithm can be loaded in each mode. Where its rule names a mode that it
// cannot count in, the error says what to do.
func TestConsistencyOfEachAlgorithm(t *testing.T) {
	for _, a := range algorithm.All {
		for mode := params.ConsistencyStrict; mode <= params.ConsistencyLocal; mode++ {
			text := "domain: api\ndescriptors:\n  - {key: k, limit: 100/minute, algorithm: " + a.Name() + "}\n"
			if _, err := rules.Parse("test", []byte(text), rules.Options{Consistency: mode}); err != nil {
				t.Errorf("%s, all limits %s: %v", a.Name(), mode, err)
			}
			text = strings.Replace(text, "algorithm:", "consistency: "+mode.String()+", algorithm:", 1)
			if _, err := rules.Parse("test", []byte(text), rules.Options{}); err != nil && !strings.Contains(err.Error(), "is impossible with "+a.Name()+": ") {
				t.Errorf("%s: %v", a.Name(), err)
			}
		}
	}
}
