package limits_test

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
)

// Values that a wildcard matches have a counter each, or one together where they share the
// threshold; those of a limit with a key of its own count under that.
func TestWhoSharesACounter(t *testing.T) {
	s := parse(t, "domain: d\ndescriptors:\n  - {key: path, value: \"/a*\", limit: 5/minute}\n  - {key: path, value: \"/b*\", share_threshold: true, limit: 5/minute}\n")
	for path, want := range map[string]string{"/a1": "/a1", "/a2": "/a2", "/b1": "", "/b2": ""} {
		if ops := s.Match(nil, request("d", "path="+path)); len(ops) != 1 || ops[0].Key != want {
			t.Errorf("%s counts under %+v, want the key %q", path, ops, want)
		}
	}
	l := &limits.Limit{Limit: weir.PerMinute(5, algorithm.FixedWindow), SharedKey: "all"}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	rule := &limits.Rule{Domain: "d", Path: "user", Key: "user", Keys: []string{"user"}, Limits: []*limits.Limit{l}}
	l.Rule = rule
	layer, err := limits.NewLayer(limits.Domain{Name: "d", Rules: []*limits.Rule{rule}})
	if err != nil {
		t.Fatal(err)
	}
	if ops := limits.NewSet(layer).Match(nil, request("d", "user=ann")); len(ops) != 1 || ops[0].Key != "all" {
		t.Errorf("%+v, want the key all", ops)
	}
	if _, err := limits.NewLayer(limits.Domain{Name: "d", Rules: []*limits.Rule{rule, rule}}); err == nil {
		t.Error("a rule that is there twice is taken")
	}
}

// A request must pass the limits of every layer of its domain, in their order; a deny list of
// one refuses it, and an allow list of one exempts it from that layer alone.
func TestLayersAreBesideEachOther(t *testing.T) {
	layerOf := func(name string) *limits.Layer {
		l := &limits.Limit{Limit: weir.PerMinute(5, algorithm.FixedWindow)}
		l.Limit.Name = name
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		l.Rule = &limits.Rule{Domain: "d", Path: "user", Key: "user", Keys: []string{"user"}, Limits: []*limits.Limit{l}}
		layer, err := limits.NewLayer(limits.Domain{Name: "d", Rules: []*limits.Rule{l.Rule}, Allow: map[string]*limits.Values{"user": valuesOf(t, "free of "+name)}})
		if err != nil {
			t.Fatal(err)
		}
		return layer
	}
	s := limits.NewSet(layerOf("one"), layerOf("two"))
	for user, want := range map[string]string{"ann": "one two ", "free of one": "two ", "free of two": "one "} {
		got := ""
		for _, op := range s.Match(nil, &weir.Request{Domain: "d", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: user}}}}}) {
			got += op.Limit.Name + " "
		}
		if got != want {
			t.Errorf("%s meets %q, want %q", user, got, want)
		}
	}
	if lists := s.KeyLists("d"); len(lists) != 1 {
		t.Errorf("%d lists of keys: a second descriptor of the same keys would be charged as well", len(lists))
	}
}

func valuesOf(t *testing.T, values ...string) *limits.Values {
	v := &limits.Values{}
	for _, text := range values {
		if fault, _ := v.Add(text); fault != "" {
			t.Fatal(fault)
		}
	}
	return v
}
