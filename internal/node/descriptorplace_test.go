package node

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/shed"
	"github.com/weirlimit/weir/store/memory"
)

// Every kind of rules says which descriptor an op is for, as doors say per descriptor what was
// decided.
func TestRulesNameTheDescriptor(t *testing.T) {
	words := setInWords(t, "2/minute by client_id", "3/minute by all")
	const src = "domain: api\ndescriptors:\n  - {key: client_id, limit: 2/minute}\n"
	set, err := rules.Parse("test.yaml", []byte(src), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shedder, err := shed.New(shed.Options{User: []string{"client_id"}, UserRate: shed.RateOptions{Limit: shed.Rate{Count: 2, Period: time.Minute}}})
	if err != nil {
		t.Fatal(err)
	}
	both, err := rules.Parse("test.yaml", []byte(src), rules.Options{Layers: []*limits.Layer{shedder.Layer()}})
	if err != nil {
		t.Fatal(err)
	}
	all := weir.Limits{weir.PerMinute(2, algorithm.FixedWindow)}
	store := memory.New(memory.Options{MaxBytes: memory.MinBytes})
	defer store.Close()
	if _, err := weir.New(store, all, weir.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]weir.Rules{"words": words, "set": set, "shedder": limits.NewSet(shedder.Layer()), "limits": all, "shedder with a set": both} {
		ops := r.Match(nil, &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{
			{Entries: []weir.Entry{{Key: "free", Value: "a"}, {Key: "b", Value: "c"}}}, {Entries: []weir.Entry{{Key: "client_id", Value: "ann"}}},
		}})
		met := 0
		for _, o := range ops {
			if o.Key != "fleet" && o.Descriptor == 1 {
				met++
			} else if name != "limits" && o.Key != "fleet" {
				t.Errorf("%s: %s is of descriptor %d, want 1", name, o.Limit.Name, o.Descriptor)
			}
		}
		if met == 0 {
			t.Errorf("%s: no op is of descriptor 1: %+v", name, ops)
		}
	}
}
