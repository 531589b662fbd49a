package overlay_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// A ban over the domain refuses every request of the domain that carries the entry,
// under any rule and under none, until it ends, and changes nothing of others.
func TestFamilyDomainBanRefusesTheClient(t *testing.T) {
	refused, passed := 0, 0
	n := playCases(t, 300, func(g *ruleGen) { g.banDomain(t, &refused, &passed) })
	t.Logf("the ban refused %d requests, %d others passed", refused, passed)
	if refused < n || passed < n {
		t.Error("the test shows too little")
	}
}

func (g *ruleGen) banDomain(t *testing.T, refused, passed *int) {
	top := ""
	if g.chance(30) {
		top = g.one("deny:\n  ip: [\"9.9.9.9\"]\n", "deny:\n  user:\n    - zed\n", "allow:\n  user: [ann]\n", "allow:\n  ip: [\"1.2.3.4\"]\n")
	}
	g.b.WriteString("domain: api\n" + top + "descriptors:\n")
	g.level("  ", 0, nil)
	source := g.b.String()
	before, err := load(t, source)
	if err != nil {
		return // two limits of one name, and the like
	}
	key := g.one("user", "ip", "path", "tier", "1e3: no", "of no rule", g.one(oddValues...))
	entry := weir.Entry{Key: key, Value: "it"}
	if key == "" {
		entry.Key = "of no rule"
	} else if g.chance(20) {
		entry.Value = g.one(spellings[g.rnd.IntN(len(spellings))]...)
	} else if g.chance(50) {
		entry.Value = g.one(oddValues...)
	} else if values := genValues[key]; values != nil {
		entry.Value = values[g.rnd.IntN(len(values))]
	}
	store := clocked.New(t)
	over, err := overlay.New(t.Context(), overlay.Options{Rules: before, Board: store, Now: store.Now.Load})
	if err != nil {
		t.Fatal(err)
	}
	if err := over.Keys.Set(t.Context(), overlay.DomainTarget("api", entry), overlay.BanDomain, 24*time.Hour, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	banned, plain := newDecider(t, store, over), newDecider(t, clocked.New(t), before)
	what := fmt.Sprintf("%s\nban of %v", source, entry)
	for i := range 60 {
		req := weir.Request{Domain: "api", Lease: strconv.Itoa(i), Priority: g.rnd.IntN(3)}
		for range 1 + g.rnd.IntN(2) {
			es := g.entries()
			if g.chance(30) {
				e := entry
				if at := slices.IndexFunc(spellings, func(all []string) bool { return slices.Contains(all, e.Value) }); at >= 0 {
					e.Value = g.one(spellings[at]...)
				}
				es = slices.Insert(es, g.rnd.IntN(len(es)+1), e)
			}
			req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: es})
		}
		if g.chance(10) {
			req.Domain = "other"
		}
		same := func(e weir.Entry) bool {
			return e == entry || e.Key == entry.Key && spelledAlike(e.Value, entry.Value)
		}
		carries := req.Domain == "api" && slices.ContainsFunc(req.Descriptors, func(d weir.Descriptor) bool { return slices.ContainsFunc(d.Entries, same) })
		with := banned.decide(t, &req)
		if carries {
			if with.Allowed() || with.err == nil && !with.Banned() {
				t.Errorf("%s\n%v carries it: %s", what, req.Descriptors, with)
			}
			*refused++
		} else if without := plain.decide(t, &req); !with.isLike(without) {
			t.Errorf("%s\n%v does not carry it: with the ban %s, without %s", what, req.Descriptors, with, without)
		} else if with.Allowed() {
			*passed++
		}
		if t.Failed() {
			return
		}
		g.pause(banned, plain)
	}
	banned.store.Advance(24 * time.Hour)
	plain.store.Advance(24 * time.Hour)
	last := weir.Request{Domain: "api", Lease: "last", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{entry}}}}
	if with, without := banned.decide(t, &last), plain.decide(t, &last); !with.isLike(without) {
		t.Errorf("%s\nafter its end: %s, without the ban %s", what, with, without)
	}
}

// spellings are spellings of one address each.
var spellings = [][]string{
	{"192.0.2.77", "::ffff:192.0.2.77", "::FFFF:c000:24d"},
	{"2001:db8::77", "2001:DB8::77", "2001:0db8:0:0::77", "2001:db8::77%eth0"},
}

// spelledAlike reports whether two values are spellings of one address.
func spelledAlike(a, b string) bool {
	return slices.ContainsFunc(spellings, func(all []string) bool { return slices.Contains(all, a) && slices.Contains(all, b) })
}
