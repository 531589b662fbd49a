package rules_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

const many = `domain: d
deny: {remote_address: [198.51.100.0/24, "2001:db8::/48"]}
allow: {remote_address: [10.0.0.0/8], agent: ["probe-*"]}
descriptors:
  - key: client
    limits: [100/minute, 1000/hour]
    tiers: {by: plan, limits: {pro: 1000/minute, "ent-*": 5000/minute}}
    overrides: {acme: 5/minute, "t-*": 7/minute}
    deny: [192.0.2.0/24]
  - key: client
    value: "w*-x*z"
    limit: 1/minute
  - key: a
    descriptors:
      - key: b
        value: c
        descriptors:
          - key: d
            limit: 5/minute
            mode: soft
            exceed: 10%
  - key: zero
    limit: 0
  - key: replaces
    limit: {limit: 1/minute, replaces: [gone]}
  - key: gone
    limit: {limit: 1/minute, name: gone}
`

// lim decides by rules on a store that allows everything, so that what is
// measured is the matching.
func lim(tb testing.TB, r weir.Rules) *weir.Limiter {
	l, err := weir.New(yes{}, r, weir.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

type yes struct{}

func (yes) Take(_ context.Context, ops []weir.Op) error {
	for i := range ops {
		ops[i].Decision = weir.Decision{Limit: ops[i].Limit}
	}
	return nil
}

func (yes) TakeOne(_ context.Context, _ string, l *weir.Limit, _ int64) (weir.Decision, error) {
	return weir.Decision{Limit: l}, nil
}

func (yes) Close() error { return nil }

func TestMatchAllocatesNothing(t *testing.T) {
	live := lim(t, parse(t, many))
	for _, d := range []string{
		"client=1", "client=1 plan=pro", "client=acme", "client=t-9", "client=was-xyz", "client=192.0.2.9",
		"client=192.0.2", "a=1 b=c d=4", "zero=1", "none=1", "replaces=1", "remote_address=10.0.0.1",
		"remote_address=198.51.100.7", "remote_address=2001:db8::1", "remote_address=fe80::1%eth0", "agent=probe-7",
	} {
		r := live.Acquire()
		r.Domain, r.Descriptors = "d", request("d", d, "gone=1", "client=2").Descriptors
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := live.Decide(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", d, allocs)
		}
	}
}

func TestOverrideOfTheRequestWins(t *testing.T) {
	s := parse(t, many)
	own := weir.PerHour(3, algorithm.FixedWindow)
	if err := own.Compile(); err != nil {
		t.Fatal(err)
	}
	r := request("d", "client=1", "none=1")
	for i := range r.Descriptors {
		r.Descriptors[i].Override = own
	}
	ops := s.Match(nil, r)
	if len(ops) != 2 || ops[0].Limit != own || ops[1].Limit != own || ops[0].Key == ops[1].Key {
		t.Errorf("%+v", ops)
	}
	// A denial holds all the same.
	r = request("d", "client=192.0.2.9")
	r.Descriptors[0].Override = own
	if ops := s.Match(nil, r); len(ops) != 1 || ops[0].Role != weir.Deny {
		t.Errorf("denied: %+v", ops)
	}
	r.Domain = "unknown"
	if ops := s.Match(nil, r); len(ops) != 0 {
		t.Errorf("override in an unknown domain: %+v", ops)
	}
	// The entry that names the tier ends the descriptor: a list beneath denies nothing.
	s = parse(t, `domain: d
descriptors:
  - {key: user, tiers: {by: plan, limits: {pro: 9/s}}, descriptors: [{key: plan, deny: [pro]}]}
`)
	r = request("d", "user=ann plan=pro")
	r.Descriptors[0].Override = own
	if ops := s.Match(nil, r); len(ops) != 1 || ops[0].Limit != own {
		t.Errorf("an override beside a tier: %+v", ops)
	}
}

// TestKeysAreApart: a key and a value cannot stand for
// another pair, nor values for other values.
func TestKeysAreApart(t *testing.T) {
	s := parse(t, `domain: d
descriptors:
  - {key: a, value: b_c, limit: 1/s}
  - {key: a_b, value: c, limit: 2/s}
  - {key: x, descriptors: [{key: y, limit: 3/s}]}
`)
	count := func(d string) int64 { return s.Match(nil, request("d", d))[0].Limit.Count }
	if count("a=b_c") != 1 || count("a_b=c") != 2 {
		t.Error("key and value were joined")
	}
	keys := map[string]string{}
	for _, v := range [][2]string{{"1", "2"}, {"12", ""}, {"", "12"}, {"1\x1f2", ""}, {"", "1\x1f2"}, {"1\x1f2\x1f1", ""}} {
		r := &weir.Request{Domain: "d", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "x", Value: v[0]}, {Key: "y", Value: v[1]}}}}}
		key := strings.Clone(s.Match(nil, r)[0].Key)
		if was, ok := keys[key]; ok {
			t.Errorf("%q and %q share the key %q", was, v, key)
		}
		keys[key] = fmt.Sprintf("%q", v)
	}
}

func TestScopesAreApart(t *testing.T) {
	s := parse(t, `domain: d
descriptors:
  - {key: a, value: b/c, limit: 1/s}
  - {key: a, value: b, limit: 1/s, descriptors: [{key: c, limit: 1/s}]}
  - {key: a=b/c, limit: 1/s}
  - {key: 'a', value: '"b"', limit: 1/s}
  - {key: l, limits: [1/s, 1/m]}
  - {key: 'l#second', limit: 1/s}
`)
	scopes := map[string]bool{}
	for _, l := range s.Limits() {
		if scopes[l.Scope] {
			t.Errorf("two limits of scope %q", l.Scope)
		}
		scopes[l.Scope] = true
	}
	if len(scopes) != 8 {
		t.Errorf("%d scopes", len(scopes))
	}
}

// TestWhatKeepsCounters: keys keep their state while the id of the limit that
// they meet stays the same.
func TestWhatKeepsCounters(t *testing.T) {
	id := func(rule, descriptors string) uint64 {
		t.Helper()
		return parse(t, "domain: d\ndescriptors: [{key: k, "+rule+"}]\n").Match(nil, request("d", descriptors))[0].Limit.ID()
	}
	f := func(same bool, before, after string) {
		t.Helper()
		if got := id(before, "k=1") == id(after, "k=1 plan=pro"); got != same {
			t.Errorf("from %s to %s: kept %t", before, after, got)
		}
	}
	tier := ", tiers: {by: plan, limits: {pro: %s}}"
	const bucket = ", algorithm: token_bucket"
	f(true, "limit: 4/s", "limit: 2/s"+strings.ReplaceAll(tier, "%s", "3/s"))
	f(true, "limit: 1/s"+bucket, "limit: 2/m"+bucket+strings.ReplaceAll(tier, "%s", "3/h"))
	f(true, "limit: 2/s", "name: x, limit: 2/s"+strings.ReplaceAll(tier, "%s", "{limit: 3/s, name: y}"))
	f(true, "limit: 1/s, overrides: {'1': 7/m}", "rate_limit: {unit: day, requests_per_unit: 1}"+strings.ReplaceAll(tier, "%s", "3/m"))
	f(false, "limit: 1/s", "limit: 1/s"+strings.ReplaceAll(tier, "%s", "{limit: 3/h, algorithm: token_bucket}"))
	f(false, "limit: 1/s, on_change: reset", "limit: 1/s, on_change: reset"+strings.ReplaceAll(tier, "%s", "2/s"))
	f(true, "limit: 1/s, on_change: reset", "limit: 1/s, on_change: reset"+strings.ReplaceAll(tier, "%s", "1/s"))
	f(true, "limits: [{limit: 7/s, name: a}, 1/m]", "limits: [{limit: 5/s, name: a}, 1/m]"+strings.ReplaceAll(tier, "%s", "[{limit: 2/s, name: a}, 1/m]"))
	f(false, "limits: [{limit: 1/s, name: a}, 1/m]", "limits: [{limit: 1/s, name: b}, 1/m]"+strings.ReplaceAll(tier, "%s", "[{limit: 1/s, name: b}, 1/m]"))
}

func TestManyDescriptorsAndEntries(t *testing.T) {
	s := parse(t, many)
	r := request("d")
	for i := range 100 {
		r.Descriptors = append(r.Descriptors, request("d", fmt.Sprintf("client=%d", i)).Descriptors...)
	}
	if ops := s.Match(nil, r); len(ops) != 200 {
		t.Errorf("%d ops", len(ops))
	}
	deep := "domain: d\ndescriptors:\n"
	for i := range 20 {
		deep += strings.Repeat("  ", i) + "- key: k\n" + strings.Repeat("  ", i) + "  limit: 1/s\n" +
			strings.Repeat("  ", i) + "  descriptors:\n"
	}
	deep += strings.Repeat("  ", 20) + "- {key: k, limit: 1/s}\n"
	ops := parse(t, deep).Match(nil, request("d", strings.Repeat("k=v ", 21)))
	if len(ops) != 1 || strings.Count(ops[0].Key, "v") != 21 {
		t.Errorf("%+v", ops)
	}
}

func TestManyOverrides(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n- key: client\n  limit: 1/s\n  overrides:\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "    c%d: %d/minute\n", i, i+1)
	}
	ops := parse(t, b.String()).Match(nil, request("d", "client=c19999"))
	if len(ops) != 1 || ops[0].Limit.Count != 20_000 {
		t.Errorf("%+v", ops)
	}
}

// flat makes a file of n descriptors.
func flat(n int) string {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range n / 2 {
		fmt.Fprintf(&b, "- key: path\n  value: /v1/things/%d\n  descriptors:\n  - {key: user, limit: %d/minute}\n", i, i+1)
	}
	return b.String()
}

func wild(n int) string {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range n {
		pattern := fmt.Sprintf("/v1/%d/*", i)
		switch i % 3 {
		case 1:
			pattern = fmt.Sprintf("*/%d.html", i)
		case 2:
			pattern = fmt.Sprintf("/v1/*/%d/*/edit", i)
		}
		fmt.Fprintf(&b, "- {key: path, value: \"%s\", limit: %d/minute}\n", pattern, i+1)
	}
	return b.String()
}

func BenchmarkMatch(b *testing.B) {
	run := func(name string, s *limits.Set, r *weir.Request) {
		b.Run(name, func(b *testing.B) {
			l := lim(b, s)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Decide(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			if len(r.Ops()) != 1 {
				b.Fatalf("%d ops", len(r.Ops()))
			}
		})
	}
	for _, n := range []int{10, 1000, 100_000} {
		s := parse(b, flat(n))
		run(fmt.Sprintf("descriptors=%d", n), s, request("d", fmt.Sprintf("path=/v1/things/%d user=7", n/4)))
	}
	for _, n := range []int{10, 1000, 10_000} {
		s := parse(b, wild(n))
		i := n / 2 / 3 * 3
		run(fmt.Sprintf("wildcards=%d/prefix", n), s, request("d", fmt.Sprintf("path=/v1/%d/x", i)))
		run(fmt.Sprintf("wildcards=%d/suffix", n), s, request("d", fmt.Sprintf("path=/other/%d.html", i+1)))
		run(fmt.Sprintf("wildcards=%d/middle", n), s, request("d", fmt.Sprintf("path=/v1/x/%d/y/edit", i+2)))
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		text := []byte(flat(n))
		b.Run(fmt.Sprintf("descriptors=%d", n), func(b *testing.B) {
			var set *limits.Set
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				var err error
				if set, err = rules.Parse("x.yaml", text, rules.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/descriptor")
			runtime.KeepAlive(set)
		})
	}
}

// TestMatchIsFlat is the coarse form of BenchmarkMatch: a hundred times the
// rules must not cost even 25 times as much: the caches of a processor are small. A scan
// would cost hundreds.
func TestMatchIsFlat(t *testing.T) {
	cost := func(text, d string) time.Duration {
		s, r := parse(t, text), request("d", d)
		ops := make([]weir.Op, 0, 8)
		best := time.Hour
		for range 20 {
			start := time.Now()
			for range 500 {
				ops = s.Match(ops[:0], r)
			}
			best = min(best, time.Since(start))
		}
		if len(ops) != 1 {
			t.Fatalf("%q: %d ops", d, len(ops))
		}
		return best
	}
	for _, c := range []struct {
		name        string
		few, many   string
		dFew, dMany string
	}{
		{"descriptors", flat(20), flat(20_000), "path=/v1/things/9 user=1", "path=/v1/things/9999 user=1"},
		{"wildcards", wild(30), wild(10_000), "path=/v1/x/29/y/edit", "path=/v1/x/9998/y/edit"},
	} {
		few, many := cost(c.few, c.dFew), cost(c.many, c.dMany)
		if many > 25*few {
			t.Errorf("%s: 500 matches cost %s among few, %s among many", c.name, few, many)
		}
	}
}

// Meets says what can be limited, whatever the values are.
func TestMeets(t *testing.T) {
	set := parse(t, `
domain: d
deny: {asn: ["64496"]}
descriptors:
  - {key: user, tiers: {by: plan, limits: {pro: 5/second}}}
  - key: path
    value: /login*
    descriptors:
      - {key: ip, limit: 1/second}
  - {key: none}
  - {key: shut, deny: [bob]}
  - {key: vip, overrides: {acme: 1/second}}
`)
	f := func(want bool, domain string, keys ...string) {
		t.Helper()
		if got := set.Meets(domain, keys); got != want {
			t.Errorf("%s %q: got %t", domain, keys, got)
		}
	}
	f(true, "d", "user")
	f(true, "d", "user", "plan")
	f(false, "d", "user", "tier")
	f(false, "d", "user", "plan", "ip")
	f(true, "d", "path", "ip")
	f(false, "d", "path")
	f(false, "d", "ip")
	f(false, "d", "none")
	f(true, "d", "shut")
	f(true, "d", "shut", "more")
	f(true, "d", "vip")
	f(true, "d", "what", "asn")
	f(false, "d")
	f(false, "other", "user")
}
