package overlay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/clocked"
	"github.com/weirlimit/weir/internal/seeds"
	"github.com/weirlimit/weir/overlay"
	"github.com/weirlimit/weir/rules"
)

// A ban over the domain refuses every request of the domain that carries the entry,
// under any rule and under none, until it ends, and changes nothing of others. The
// lines that are printed for it, pasted where their comment says, do the same.
func TestFamilyDomainBanRefusesTheClient(t *testing.T) {
	n := 300
	if os.Getenv("WEIR_SOAK") == "1" {
		n = 4000
	}
	seed := seeds.Of(t)
	refused, passed, pasted := 0, 0, 0
	for i := range n {
		g := &ruleGen{rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		g.banDomain(t, &refused, &passed, &pasted)
		if t.Failed() {
			t.Fatalf("seed %d, case %d", seed, i)
		}
	}
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
	key := g.one("user", "ip", "path", "tier", "of no rule")
	entry := weir.Entry{Key: key, Value: "it"}
	if values := genValues[key]; values != nil {
		entry.Value = values[g.rnd.IntN(len(values))]
	}
	store, plain, pastedStore := clocked.New(t), clocked.New(t), clocked.New(t)
	over, err := overlay.New(t.Context(), overlay.Options{Rules: before, Board: store, Now: store.Now.Load})
	if err != nil {
		t.Fatal(err)
	}
	if err := over.BanDomain(t.Context(), "api", entry, 24*time.Hour, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	lines := before.KeyLines(rules.KeyChange{Domain: "api", Action: rules.BanDomain, Entries: []weir.Entry{entry}})
	limiters := make([]*weir.Limiter, 3)
	makeLimiter := func(i int, s *clocked.Store, r weir.Rules) {
		if limiters[i], err = weir.New(s, r, weir.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	makeLimiter(0, store, over)
	makeLimiter(1, plain, before)
	text := ""
	if !strings.HasPrefix(lines, "# no lines") {
		text = pasteDeny(t, source, lines)
		after, err := load(t, text)
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			return
		}
		makeLimiter(2, pastedStore, after)
		*pasted++
	}
	what := fmt.Sprintf("%s\nban of %v\n%s", source, entry, lines)
	for i := range 60 {
		req := weir.Request{Domain: "api", Lease: strconv.Itoa(i), Priority: g.rnd.IntN(3)}
		for range 1 + g.rnd.IntN(2) {
			es := g.entries()
			if g.chance(30) {
				es = slices.Insert(es, g.rnd.IntN(len(es)+1), entry)
			}
			req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: es})
		}
		if g.chance(10) {
			req.Domain = "other"
		}
		carries := req.Domain == "api" && slices.ContainsFunc(req.Descriptors, func(d weir.Descriptor) bool { return slices.Contains(d.Entries, entry) })
		var got [3]weir.Decision
		var errs [3]error
		for j, l := range limiters {
			if l == nil || j == 1 && carries {
				continue
			}
			one := weir.Request{Domain: req.Domain, Lease: req.Lease, Priority: req.Priority, Descriptors: req.Descriptors}
			got[j], errs[j] = l.Decide(t.Context(), &one)
		}
		switch {
		case carries && (got[0].Allowed() || errs[0] == nil && !got[0].Banned()):
			t.Errorf("%s\n%v carries it: %s (%v)", what, req.Descriptors, got[0], errs[0])
		case carries:
			*refused++
		case got[0].Allowed() != got[1].Allowed() || (errs[0] == nil) != (errs[1] == nil):
			t.Errorf("%s\n%v does not carry it: with the ban %s (%v), without %s (%v)", what, req.Descriptors, got[0], errs[0], got[1], errs[1])
		case got[0].Allowed():
			*passed++
		}
		if limiters[2] != nil && (got[0].Allowed() != got[2].Allowed() || (errs[0] == nil) != (errs[2] == nil)) {
			t.Errorf("%s\n%s\n%v: with the ban %s (%v), with the lines %s (%v)", what, text, req.Descriptors, got[0], errs[0], got[2], errs[2])
		}
		if t.Failed() {
			return
		}
		d := time.Duration(g.rnd.IntN(4)) * time.Second
		store.Advance(d)
		plain.Advance(d)
		pastedStore.Advance(d)
	}
	store.Advance(24 * time.Hour)
	one := weir.Request{Domain: "api", Lease: "last", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "of no rule", Value: "it"}}}}}
	if d, err := limiters[0].Decide(t.Context(), &one); err != nil || !d.Allowed() {
		t.Errorf("%s\nafter its end: %s (%v)", what, d, err)
	}
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
