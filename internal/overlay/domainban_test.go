package overlay_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/rules"
)

// A ban over the domain refuses every request of the domain that carries the entry,
// under any rule and under none, until it ends, and changes nothing of others. The
// lines that are printed for it, pasted where their comment says, do the same.
func TestFamilyDomainBanRefusesTheClient(t *testing.T) {
	refused, passed, pasted := 0, 0, 0
	n := playCases(t, 300, func(g *ruleGen) { g.banDomain(t, &refused, &passed, &pasted) })
	t.Logf("the ban refused %d requests, %d others passed; lines of %d bans were pasted", refused, passed, pasted)
	if refused < n || passed < n || pasted < n/3 {
		t.Error("the test shows too little")
	}
}

func (g *ruleGen) banDomain(t *testing.T, refused, passed, pasted *int) {
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
	lines := before.KeyLines(rules.KeyChange{Domain: "api", Action: rules.BanDomain, Entries: []weir.Entry{entry}})
	banned, plain := newDecider(t, store, over), newDecider(t, clocked.New(t), before)
	all := []*decider{banned, plain}
	var written *decider // by the lines, if there are any
	text := ""
	if !strings.HasPrefix(lines, "# no lines") {
		text = pasteDeny(t, source, lines)
		after, err := load(t, text)
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			return
		}
		written = newDecider(t, clocked.New(t), after)
		all = append(all, written)
		*pasted++
	}
	what := fmt.Sprintf("%s\nban of %v\n%s", source, entry, lines)
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
		if written != nil {
			if by := written.decide(t, &req); !with.isLike(by) {
				t.Errorf("%s\n%s\n%v: with the ban %s, with the lines %s", what, text, req.Descriptors, with, by)
			}
		}
		if t.Failed() {
			return
		}
		g.pause(all...)
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

// pasteDeny puts lines of a deny list where their first one says.
func pasteDeny(t *testing.T, source, lines string) string {
	t.Helper()
	comment, rest, _ := strings.Cut(lines, "\n")
	rest = strings.TrimSuffix(rest, "\n")
	_, where, _ := strings.Cut(comment, ".yaml, ")
	switch {
	case where == "beside its domain":
		return strings.Replace(source, "domain: api\n", "domain: api\n"+rest+"\n", 1)
	case where == "into its deny":
		return strings.Replace(source, "deny:\n", "deny:\n  "+rest+"\n", 1)
	case strings.HasPrefix(where, "into the list ") && strings.HasSuffix(where, " of its deny"):
		if strings.Contains(source, "    - zed\n") {
			return strings.Replace(source, "    - zed\n", "    - zed\n    - "+rest+"\n", 1)
		}
		return strings.Replace(source, "[\"9.9.9.9\"]", "[\"9.9.9.9\", "+rest+"]", 1)
	}
	t.Fatalf("%q names no place", comment)
	return ""
}
