package words_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
)

// Each limit in words meets the clients that it is about, under keys that do
// not mix an address with a clientId of the same text.
func TestWordRulesMatch(t *testing.T) {
	rules := set(t, "1/second by ip", "2/second by client_id", "3/second by all")
	match := func(domain, key, value string) (counters []string, costs []int64) {
		ops := rules.Match(nil, &weir.Request{Domain: domain, Cost: 4, Descriptors: []weir.Descriptor{
			{Entries: []weir.Entry{{Key: key, Value: value}}},
			{Entries: []weir.Entry{{Key: key, Value: value}, {Key: "path", Value: "/"}}}, // about something else
		}})
		for _, o := range ops {
			counters, costs = append(counters, o.Limit.Name+" "+o.Key), append(costs, o.Cost)
		}
		return counters, costs
	}
	f := func(domain, key string, want ...string) {
		t.Helper()
		got, costs := match(domain, key, "7")
		if !slices.Equal(got, want) {
			t.Errorf("%s %s meets %q, want %q", domain, key, got, want)
		}
		for _, c := range costs {
			if c != 4 {
				t.Errorf("cost %d", c)
			}
		}
	}
	f("api", "remote_address", "1/second by ip 7", "3/second by all all")
	f("api", "client_id", "1/second by ip 7", "2/second by client_id 7", "3/second by all all")
	f("api", "user")
	f("other", "client_id")

	address := rules.Match(nil, request("remote_address"))
	client := rules.Match(nil, request("client_id"))
	if address[0].Limit.ID() == client[0].Limit.ID() {
		t.Error("an address and a clientId of the same text share a counter")
	}
	if address[1].Limit.ID() != client[2].Limit.ID() {
		t.Error("a limit by all has more than one counter")
	}
	if n := len(rules.Refs()); n != 4 {
		t.Errorf("%d series, want 4: ip twice, client_id, all", n)
	}
}

func request(key string) *weir.Request {
	return &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: key, Value: "7"}}}}}
}

// A descriptor that only looks, and a cost of its own.
func TestWordRulesPeekAndCost(t *testing.T) {
	rules := set(t, "1/second by ip")
	r := request("client_id")
	r.Descriptors[0].Peek, r.Descriptors[0].Cost = true, 9
	if ops := rules.Match(nil, r); len(ops) != 1 || ops[0].Verb != weir.Peek || ops[0].Cost != 9 {
		t.Errorf("%+v", ops)
	}
	if ops := rules.Match(nil, request("client_id")); len(ops) != 1 || ops[0].Verb != weir.Spend || ops[0].Cost != 1 {
		t.Errorf("%+v", ops)
	}
}

// Matching is on the path of a decision.
func TestWordRulesDoNotAllocate(t *testing.T) {
	rules := set(t, "1/second by ip", "3/second by all")
	r, ops := request("client_id"), make([]weir.Op, 0, 8)
	if n := testing.AllocsPerRun(100, func() { ops = rules.Match(ops[:0], r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWordRulesOfSources: a limit is met by the descriptor of its sources and no other, with
// a counter for each choice of their values, and for each who "ip" can be.
func TestWordRulesOfSources(t *testing.T) {
	rules := set(t, "1/second by ip and path", "2/second by header:X")
	meets := func(entries ...string) string {
		d := weir.Descriptor{}
		for i := 0; i < len(entries); i += 2 {
			d.Entries = append(d.Entries, weir.Entry{Key: entries[i], Value: entries[i+1]})
		}
		var met []string
		for _, o := range rules.Match(nil, &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{d}}) {
			met = append(met, o.Limit.Scope+" "+o.Key)
		}
		return strings.Join(met, "; ")
	}
	seen := map[string]bool{"": true}
	for _, entries := range [][]string{{"remote_address", "a", "path", "bc"}, {"remote_address", "ab", "path", "c"}, {"client_id", "a", "path", "bc"}, {"header:X", "a"}} {
		if got := meets(entries...); seen[got] {
			t.Errorf("%q meets %q, as others do or as nothing does", entries, got)
		} else {
			seen[got] = true
		}
	}
	for _, entries := range [][]string{{}, {"remote_address", "a"}, {"path", "a", "remote_address", "b"}, {"remote_address", "a", "path", "b", "x", "c"}, {"header:x", "a"}} {
		if got := meets(entries...); got != "" {
			t.Errorf("%q meets %q", entries, got)
		}
	}
}

// set returns the limits of the domain api.
func set(t *testing.T, texts ...string) *limits.Set {
	t.Helper()
	b := words.NewBuilder("api")
	for _, text := range texts {
		w, err := words.Parse(text)
		if err == nil {
			err = b.Add(w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	layers, err := b.Layers()
	if err != nil {
		t.Fatal(err)
	}
	return limits.NewSet(layers...)
}

// TestCountersStayWhereTheyAre: a limit counts under all values of the descriptor that meets
// it, the name of a route and what of it is a * included, and EntriesOf finds them again; one
// of all requests by all counts under one key. Requests are not to be asked about by routes.
func TestCountersStayWhereTheyAre(t *testing.T) {
	b := words.NewBuilder("api")
	add := func(text, route string) *words.Words {
		w, err := words.Parse(text)
		if err == nil && route == "" {
			err = b.Add(w)
		} else if err == nil {
			w.Text += " on " + route
			err = b.AddOfRoute(w, route)
		}
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	add("1/second by header:X and path", "")
	names := []string{"login", "GET /api/*", "/api/users", "*"}
	var asked []weir.Descriptor
	for _, name := range names {
		for _, by := range []string{"all", "ip", "ip and header:X"} {
			d := weir.Descriptor{}
			for i, key := range add("2/second by "+by, name).RouteKeys() {
				value := "v" + key
				if i == 0 {
					value = name
				}
				d.Entries = append(d.Entries, weir.Entry{Key: key, Value: value})
			}
			asked = append(asked, d)
		}
	}
	layers, err := b.Layers()
	if err != nil {
		t.Fatal(err)
	}
	s := limits.NewSet(layers...)
	asked = append(asked, weir.Descriptor{Entries: []weir.Entry{{Key: "header:X", Value: "a"}, {Key: "path", Value: "/"}}})
	for _, d := range asked {
		r := &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{d}}
		ops := s.Match(nil, r)
		if len(ops) != 1 || ops[0].Key != r.KeyOf(&d) {
			t.Errorf("%v meets %+v, want one limit under the key %q", d.Entries, ops, r.KeyOf(&d))
			continue
		}
		if domain, entries, ok := s.EntriesOf(ops[0].Limit, ops[0].Key); !ok || domain != "api" || !slices.Equal(entries, d.Entries) {
			t.Errorf("%s under %q is of %v, want %v", ops[0].Limit.Name, ops[0].Key, entries, d.Entries)
		}
	}
	if lists := s.KeyLists("api"); len(lists) != 1 || !slices.Equal(lists[0].Keys, []string{"header:X", "path"}) {
		t.Errorf("requests are to be asked about by %v", lists)
	}
	if why := s.Misspelt(&weir.Request{Domain: "api", Descriptors: asked[:1]}); why != "" {
		t.Error(why)
	}
}
