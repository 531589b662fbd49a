package rules_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/rules"
)

// desk decides requests by rules on a memory store whose time is the test's.
type desk struct {
	*weir.Limiter
	t     *testing.T
	store *clocked.Store
}

func newDesk(t *testing.T, r weir.Rules) *desk {
	t.Helper()
	store := clocked.New(t)
	l, err := weir.New(store, r, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{l, t, store}
}

// fileDesk decides by the descriptors of a file.
func fileDesk(t *testing.T, descriptors string) *desk {
	t.Helper()
	return newDesk(t, parse(t, "domain: d\ndescriptors:\n"+descriptors))
}

func (d *desk) decide(r *weir.Request) weir.Decision {
	d.t.Helper()
	got, err := d.Decide(context.Background(), r)
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// run asks n times for one descriptor at a priority, and returns a letter for
// each answer: a allowed, r refused, s soft, b borrowed, w to wait.
func (d *desk) run(n, priority int, descriptor string) string {
	d.t.Helper()
	var out strings.Builder
	for range n {
		r := request("d", descriptor)
		r.Priority = priority
		switch got := d.decide(r); {
		case !got.Allowed():
			out.WriteByte('r')
		case r.Soft():
			out.WriteByte('s')
		case r.Borrowed():
			out.WriteByte('b')
		case r.Delay() > 0:
			out.WriteByte('w')
		default:
			out.WriteByte('a')
		}
	}
	return out.String()
}

func (d *desk) want(got, want string) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("got %s, want %s", got, want)
	}
}

// left returns how much each limit of one descriptor still has.
func (d *desk) left(descriptor string) string {
	d.t.Helper()
	r := request("d", descriptor)
	r.Verb, r.Lease = weir.Peek, "who looks"
	d.decide(r)
	var left []string
	for _, o := range r.Ops() {
		left = append(left, fmt.Sprint(o.Decision.Remaining))
	}
	return strings.Join(left, " ")
}

func TestFilePriorities(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_counter", "sliding_subwindows", "sliding_log", "approximate"} {
		d := fileDesk(t, "  - {key: k, limit: 10/minute, algorithm: "+algorithm+", headroom: [0, 2, 50%]}\n"+
			"  - {key: batch, limit: 10/minute, algorithm: "+algorithm+", headroom: [0, 2, 50%], priority: 2}\n")
		// Half is kept from priority 2, two units from priority 1.
		d.want(d.run(6, 2, "k=1"), "aaaaar")
		d.want(d.run(4, 1, "k=1"), "aaar")
		d.want(d.run(3, 0, "k=1"), "aar")
		// Whatever the request claims, the rule says that it is batch work.
		d.want(d.run(6, 0, "batch=1"), "aaaaar")
	}
}

func TestFileSoftShadowPenalize(t *testing.T) {
	d := fileDesk(t, `
  - {key: soft, limit: 10/minute, algorithm: fixed_window, mode: soft, exceed: 20%}
  - {key: shadow, limit: 2/minute, mode: shadow}
  - {key: penalize, limit: 1/second, burst: 1, algorithm: token_bucket, penalize: true}
  - {key: fair, limit: 1/second, burst: 1, algorithm: token_bucket}
  - {key: queue, limit: 1/second, burst: 2, algorithm: leaky_queue}
  - {key: cost, limit: 10/minute, cost: 5}
`)
	d.want(d.run(14, 0, "soft=1"), "aaaaaaaaaassrr")
	d.want(d.run(4, 0, "shadow=1"), "aaaa")
	if l := d.Match(request("d", "shadow=1"))[0].Limit; l.Counters().Load(weir.ShadowRefused) != 2 {
		t.Errorf("%d counted as refused by the shadow, want 2", l.Counters().Load(weir.ShadowRefused))
	}
	d.want(d.run(4, 0, "queue=1"), "awwr")
	d.want(d.run(3, 0, "cost=1"), "aar")
	// Whoever calls twice a second gets one a second; with penalize, none.
	fair, penalized := "", ""
	for range 6 {
		fair += d.run(1, 0, "fair=1")
		penalized += d.run(1, 0, "penalize=1")
		d.store.Advance(500 * time.Millisecond)
	}
	d.want(fair, "ararar")
	d.want(penalized, "arrrrr")
}

func TestFileElastic(t *testing.T) {
	d := newDesk(t, parse(t, `
domain: d
defaults: {algorithm: fixed_window}
pools:
  spare: {limit: 6/minute, headroom: [0, 2]}
descriptors:
  - {key: tenant, limit: 2/minute, mode: elastic, pool: spare, ceiling: 5}
`))
	// Two of its own, three of the pool up to the ceiling.
	d.want(d.run(6, 0, "tenant=one"), "aabbbr")
	// What is assured is assured, though the pool has one unit left; it is then
	// charged to the pool as well.
	d.want(d.run(3, 0, "tenant=two"), "aar")
	d.store.Advance(time.Minute)
	// Two units of the pool are kept from priority 1.
	d.want(d.run(5, 1, "tenant=three"), "aabbr")
}

func TestFileBan(t *testing.T) {
	d := fileDesk(t, "  - {key: k, limit: 2/minute, algorithm: fixed_window, ban: {after: 3, for: 15m}}\n")
	d.want(d.run(4, 0, "k=1"), "aarr")
	d.store.Advance(time.Minute)
	d.want(d.run(4, 0, "k=1"), "aarr") // the third refusal begins the ban
	d.store.Advance(14 * time.Minute)
	d.want(d.run(1, 0, "k=1"), "r")
	d.want(d.run(1, 0, "k=2"), "a")
	d.store.Advance(time.Minute)
	d.want(d.run(3, 0, "k=1"), "aar")
}

func TestFileRollout(t *testing.T) {
	enforced := func(percent int) (keys []string) {
		d := fileDesk(t, fmt.Sprintf("  - {key: k, limit: 1/hour, rollout: %d%%}\n", percent))
		for i := range 1000 {
			key := fmt.Sprintf("k=%d", i)
			switch got := d.run(2, 0, key); got {
			case "ar":
				keys = append(keys, key)
			case "aa":
			default:
				t.Fatalf("%s: %s", key, got)
			}
		}
		return keys
	}
	some := enforced(30)
	if n := len(some); n < 250 || n > 350 {
		t.Errorf("%d of 1000 keys are enforced, want about 300", n)
	}
	if again := enforced(30); strings.Join(some, " ") != strings.Join(again, " ") {
		t.Error("after a restart other keys are enforced")
	}
	more := " " + strings.Join(enforced(60), " ") + " "
	for _, key := range some {
		if !strings.Contains(more, " "+key+" ") {
			t.Errorf("%s is enforced at 30%% and not at 60%%", key)
		}
	}
	if len(enforced(0)) != 0 || len(enforced(100)) != 1000 {
		t.Error("0% and 100% are not none and all")
	}
}

// TestFileAllOrNothing: a request that one limit refuses spends under none.
func TestFileAllOrNothing(t *testing.T) {
	d := fileDesk(t, `
  - key: k
    limits: [100/hour, {limit: 3/minute, algorithm: approximate}, {limit: 2, algorithm: concurrency, ttl: 1h}]
`)
	ask := func(lease string) bool {
		r := request("d", "k=1")
		r.Lease = lease
		return d.decide(r).Allowed()
	}
	if !ask("a") || !ask("b") || ask("c") {
		t.Error("not two leases at once")
	}
	d.want(d.left("k=1"), "98 1 0")
	r := request("d", "k=1")
	r.Lease = "a"
	if _, err := d.Release(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	d.want(d.left("k=1"), "98 1 1")
	if !ask("c") {
		t.Error("the place that became free was not given")
	}
	if _, err := d.Release(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	r.Lease = "c"
	if _, err := d.Release(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if ask("d") {
		t.Error("four in a minute passed")
	}
	d.want(d.left("k=1"), "97 0 1")
}

// TestReloadDecides reloads the file under a store in use: what was spent counts
// against a new count, by a new algorithm too unless it is a log or a sketch, and what
// was decided is counted on.
func TestReloadDecides(t *testing.T) {
	for _, c := range []struct{ algorithm, other, left string }{
		{"token_bucket", "leaky_bucket", "0"},
		{"leaky_bucket", "fixed_window", "0"},
		{"fixed_window", "sliding_window", "0"},
		{"sliding_window", "sliding_subwindows", "0"},
		{"sliding_subwindows", "sliding_log", "10"},
		{"sliding_log", "approximate", "10"},
		{"approximate", "token_bucket", "10"},
	} {
		t.Run(c.algorithm, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.yaml")
			set := func(count int, algorithm string) {
				write(t, file, fmt.Sprintf("domain: d\ndescriptors: [{key: k, limit: %d/minute, algorithm: %s}]\n", count, algorithm))
			}
			set(10, c.algorithm)
			live, err := rules.Open([]string{file}, rules.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d := newDesk(t, live)
			reload := func(count int, algorithm, left string) {
				t.Helper()
				set(count, algorithm)
				if err := live.Reload(); err != nil {
					t.Fatal(err)
				}
				d.want(d.left("k=1"), left)
			}
			d.want(d.run(6, 0, "k=1"), "aaaaaa")
			reload(20, c.algorithm, "14")
			reload(5, c.algorithm, "0")
			reload(10, c.algorithm, "4")
			d.want(d.run(5, 0, "k=1"), "aaaar")
			reload(10, c.other, c.left)
			counters := live.Match(nil, request("d", "k=1"))[0].Limit.Counters()
			if allowed, refused := counters.Load(weir.Allowed), counters.Load(weir.Refused); allowed != 10 || refused != 1 {
				t.Errorf("counted %d allowed and %d refused, want 10 and 1", allowed, refused)
			}
		})
	}
}

// TestOpsTellTheirDescriptor: which descriptor an op is for, also where lists,
// replacements and modes add ops or leave them out.
func TestOpsTellTheirDescriptor(t *testing.T) {
	d := newDesk(t, parse(t, `domain: d
deny: {ip: [10.0.0.1]}
descriptors:
- {key: a, limits: [5/minute, 9/hour]}
- {key: b, limit: 5/minute, mode: soft, exceed: 20%}
- {key: c, limits: [{limit: 5/minute, name: c}]}
- {key: e, limits: [{limit: 7/minute, replaces: [c]}]}
`))
	f := func(want string, descriptors ...string) {
		t.Helper()
		var got []string
		for _, o := range d.Match(request("d", descriptors...)) {
			got = append(got, fmt.Sprint(o.Descriptor))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%v: ops are for %q, want %q", descriptors, s, want)
		}
	}
	f("0 0", "a=1")
	f("0 0 1 1 3", "a=1", "b=1", "x=1", "c=1")
	f("1 1 2", "c=1", "b=1", "e=1")
	f("1", "a=1", "ip=10.0.0.1", "c=1")
}

// What refuses everything promises that nothing passes, not a few units a second.
func TestGuaranteeOfARefusalOfEverything(t *testing.T) {
	d := newDesk(t, parse(t, `
domain: d
deny: {ip: [10.0.0.1]}
descriptors:
  - {key: none, limit: 0}
  - {key: user, limit: 5/minute, deny: [bob]}
`))
	for _, entry := range []weir.Entry{{Key: "ip", Value: "10.0.0.1"}, {Key: "none", Value: "x"}, {Key: "user", Value: "bob"}} {
		r := &weir.Request{Domain: "d", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{entry}}}}
		got := d.decide(r)
		if want := (weir.Guarantee{Exact: true}); got.Allowed() || got.Guarantee() != want || r.Guarantee() != want {
			t.Errorf("%v: allowed %v with %+v, want a refusal with %+v", entry, got.Allowed(), got.Guarantee(), want)
		}
	}
}
