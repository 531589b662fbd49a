package httpapi_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// What the answer to a ban says is not covered is not refused by it, and every request
// of its domain that it does not say so of is.
func TestFamilyNotCoveredIsTrue(t *testing.T) {
	n := 250
	if os.Getenv("WEIR_SOAK") == "1" {
		n = 3000
	}
	seed := seeds.Of(t)
	seen := map[string]int{}
	for i := range n {
		c := &coverage{t: t, rnd: rand.New(rand.NewPCG(seed, uint64(i))), seen: seen}
		c.run()
		if t.Failed() {
			t.Fatalf("case %d\n%s\n%s", i, c.source, c.what)
		}
	}
	t.Log(seen)
	for _, kind := range []string{"refused by a ban of a key", "passed by a ban of a key", "refused by a ban over the domain", "passed by a ban over the domain", "lists", "a tier"} {
		if seen[kind] < n/10 {
			t.Errorf("only %d: %s", seen[kind], kind)
		}
	}
}

// coverage is one ban, and requests that it refuses or not.
type coverage struct {
	t            *testing.T
	rnd          *rand.Rand
	seen         map[string]int
	source, what string
	paths        [][]string
}

var coverValues = map[string][]string{
	"user": {"ann", "bob", "cle"}, "ip": {"192.0.2.1", "192.0.2.2"}, "path": {"/a", "/ab", "/b"}, "tier": {"gold", "free", "none"}, "region": {"eu", "us"},
}

func (c *coverage) chance(percent int) bool { return c.rnd.IntN(100) < percent }

func (c *coverage) pick(key string) string {
	vs := coverValues[key]
	return vs[c.rnd.IntN(len(vs))]
}

// rules appends rules of some keys, and of others beneath them.
func (c *coverage) rules(b *strings.Builder, in string, depth int, path []string) {
	keys := []string{"user", "ip", "path", "region"}
	c.rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys[:1+c.rnd.IntN(2)] {
		path := append(slices.Clone(path), key)
		c.paths = append(c.paths, path)
		fmt.Fprintf(b, "%s- key: %s\n", in, key)
		switch c.rnd.IntN(6) {
		case 0:
			fmt.Fprintf(b, "%s  value: %q\n", in, c.pick(key))
		case 1:
			fmt.Fprintf(b, "%s  value: %q\n%s  share_threshold: %v\n", in, c.pick(key)[:1]+"*", in, c.chance(50))
		}
		several := c.chance(25)
		switch {
		case several:
			fmt.Fprintf(b, "%s  limits: [100/minute, {limit: 1000/hour, name: slow}]\n", in)
		case c.chance(75):
			fmt.Fprintf(b, "%s  limit: {limit: 100/minute%s}\n", in, []string{"", ", mode: shadow", ", mode: soft, exceed: 10%", ", name: named"}[c.rnd.IntN(4)])
		}
		if c.chance(60) {
			fmt.Fprintf(b, "%s  tiers: {by: tier, limits: {gold: 500/minute, free: {limit: 50/minute, name: free}}}\n", in)
		}
		if c.chance(25) {
			fmt.Fprintf(b, "%s  overrides: {%q: {limit: 7/hour, name: own}}\n", in, c.pick(key))
		}
		if c.chance(15) {
			fmt.Fprintf(b, "%s  deny: [%q]\n", in, c.pick(key))
		}
		if c.chance(15) {
			fmt.Fprintf(b, "%s  allow: [%q]\n", in, c.pick(key))
		}
		if depth < 2 && c.chance(50) {
			fmt.Fprintf(b, "%s  descriptors:\n", in)
			c.rules(b, in+"    ", depth+1, path)
		}
	}
}

// entries returns those of a descriptor that is likely to meet a rule.
func (c *coverage) entries() (es []weir.Entry) {
	for _, key := range c.paths[c.rnd.IntN(len(c.paths))] {
		es = append(es, weir.Entry{Key: key, Value: c.pick(key)})
	}
	if c.chance(40) {
		es = append(es, weir.Entry{Key: "tier", Value: c.pick("tier")})
	}
	return es
}

func ask(domain string, descriptors ...[]weir.Entry) *weir.Request {
	r := &weir.Request{Domain: domain, Lease: "one"}
	for _, es := range descriptors {
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: es})
	}
	return r
}

func (c *coverage) run() {
	var b strings.Builder
	if c.chance(30) {
		fmt.Fprintf(&b, "%s: {%s: [%q]}\n", []string{"deny", "allow"}[c.rnd.IntN(2)], "region", "us")
	}
	b.WriteString("descriptors:\n")
	c.rules(&b, "  ", 0, nil)
	c.source = b.String()
	var files []string
	for _, domain := range []string{"api", "other"} {
		file := filepath.Join(c.t.TempDir(), domain+".yaml")
		if err := os.WriteFile(file, []byte("domain: "+domain+"\n"+c.source), 0o600); err != nil {
			c.t.Fatal(err)
		}
		files = append(files, file)
	}
	set, err := rules.Load(files, rules.Options{})
	if err != nil {
		return // two limits of one name, and the like
	}
	srv := serveRules(c.t, clocked.New(c.t), set, httpapi.Options{AdminToken: token})
	if c.chance(50) {
		c.key(srv, set)
	} else {
		c.domain(srv, set)
	}
}

// answer bans and returns what is said not to be covered.
func (c *coverage) answer(srv *server, es []weir.Entry, more string) []string {
	entries, err := json.Marshal(es)
	if err != nil {
		c.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":%s}],"seconds":3600%s}`, entries, more)
	res, text := exchange(c.t, "POST", srv.URL, "/v1/admin/ban", body, bearer)
	var a struct {
		NotCovered []string `json:"not_covered"`
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || res.StatusCode != 200 || len(a.NotCovered) < 3 {
		c.t.Fatalf("%s: %d %s", body, res.StatusCode, text)
	}
	c.what = body + "\n" + strings.Join(a.NotCovered, "\n")
	return a.NotCovered
}

// refused reports whether the operator's ban refuses a request.
func (c *coverage) refused(srv *server, r *weir.Request) bool {
	c.t.Helper()
	one := *r
	d, err := srv.lim.Decide(c.t.Context(), &one)
	if err != nil {
		c.t.Fatalf("%v: %v", r, err)
	}
	banned := slices.ContainsFunc(one.Ops(), func(o weir.Op) bool {
		return o.Role == weir.Deny && (strings.HasSuffix(o.Decision.Limit.Name, " (banned)") || o.Decision.Limit.Name == overlay.DomainBan)
	})
	if banned && d.Allowed() {
		c.t.Errorf("%v meets the ban and passes: %s", r.Descriptors, d)
	}
	return banned
}

func (c *coverage) domain(srv *server, set *limits.Set) {
	key := []string{"user", "ip", "path", "tier", "region", "of no rule"}[c.rnd.IntN(6)]
	it := weir.Entry{Key: key, Value: "it"}
	if coverValues[key] != nil {
		it.Value = c.pick(key)
	}
	said := c.answer(srv, []weir.Entry{it}, `,"whole_domain":true`)
	c.lists(srv, set, said, []weir.Entry{it})
	for range 30 {
		es := c.entries()
		if c.chance(30) {
			es = slices.Insert(es, c.rnd.IntN(len(es)+1), it)
		}
		r := ask("api", es, c.entries())
		carries := slices.ContainsFunc(r.Descriptors, func(d weir.Descriptor) bool { return slices.Contains(d.Entries, it) })
		if got := c.refused(srv, r); got != carries {
			c.t.Errorf("%v carries the entry: %v, and is refused: %v", r.Descriptors, carries, got)
		}
		c.note(carries, "a ban over the domain")
		if r.Domain = "other"; c.refused(srv, r) {
			c.t.Errorf("%v of another domain is refused", r.Descriptors)
		}
	}
}

func (c *coverage) key(srv *server, set *limits.Set) {
	var es []weir.Entry
	var limit *weir.Limit
	var key string
	for range 20 {
		es = c.entries()
		for _, o := range set.Match(nil, ask("api", es)) {
			if o.Role == weir.Enforce || o.Role == weir.Shadow {
				limit, key = o.Limit, strings.Clone(o.Key)
			}
		}
		if limit != nil {
			break
		}
	}
	if limit == nil {
		return
	}
	said := c.answer(srv, es, fmt.Sprintf(`,"limit":%q`, limit.Name))
	last := es[len(es)-1]
	if last.Key == "tier" {
		c.seen["a tier"]++
	}
	c.lists(srv, set, said, es)
	for range 40 {
		one := c.entries()
		if c.chance(60) {
			one = slices.Clone(es)
			if last.Key == "tier" && c.chance(50) {
				one = one[:len(one)-1]
			}
			if c.chance(30) {
				one[c.rnd.IntN(len(one))] = c.entries()[0]
			}
			if c.chance(30) {
				one = append(one, weir.Entry{Key: "tier", Value: c.pick("tier")})
			}
		}
		r := ask("api", one)
		if c.chance(30) {
			r = ask("api", one, c.entries())
		}
		// It is of the key under the limit: of requests that meet those.
		meets := slices.ContainsFunc(set.Match(nil, r), func(o weir.Op) bool {
			return o.Role != weir.Deny && o.Limit.Scope == limit.Scope && o.Key == key
		})
		got := c.refused(srv, r)
		if got != meets {
			c.t.Errorf("%v meets the limit %s under the key %q: %v, and is refused: %v", r.Descriptors, limit.Scope, key, meets, got)
		}
		if without := c.lacks(said, r); without != "" && got {
			c.t.Errorf("%v is refused, and it is said of it: %s", r.Descriptors, without)
		}
		c.note(got, "a ban of a key")
		if r.Domain = "other"; c.refused(srv, r) {
			c.t.Errorf("%v of another domain is refused", r.Descriptors)
		}
	}
}

func (c *coverage) note(refused bool, by string) {
	if refused {
		c.seen["refused by "+by]++
	} else {
		c.seen["passed by "+by]++
	}
}

// lacks returns what is said of requests without some keys, if r is one of those.
func (c *coverage) lacks(said []string, r *weir.Request) string {
	for _, s := range said {
		keys, ok := strings.CutPrefix(s, "requests without ")
		if !ok {
			continue
		}
		keys, _, _ = strings.Cut(keys, ", such as")
		for _, key := range strings.Split(keys, ", ") {
			if !slices.ContainsFunc(r.Descriptors, func(d weir.Descriptor) bool {
				return slices.ContainsFunc(d.Entries, func(e weir.Entry) bool { return e.Key == key })
			}) {
				return s
			}
		}
	}
	return ""
}

// lists looks at the lists of keys that are said to be asked about without the ban: a
// request by each is not refused, and all that there are are named.
func (c *coverage) lists(srv *server, set *limits.Set, said []string, es []weir.Entry) {
	c.t.Helper()
	named := map[string]bool{}
	cut, none := false, false
	for _, s := range said {
		none = none || strings.Contains(s, "no rule of the domain has the key ")
		_, list, ok := strings.Cut(s, "asked about only by ")
		if !ok {
			continue
		}
		for _, one := range strings.Split(list, ", ") {
			if strings.HasPrefix(one, "and ") {
				cut = true
				continue
			}
			named[one] = true
			c.seen["lists"]++
			var ask1 []weir.Entry
			for _, key := range strings.Split(one, "/") {
				e := weir.Entry{Key: key, Value: c.pick(key)}
				if i := slices.IndexFunc(es, func(e weir.Entry) bool { return e.Key == key }); i >= 0 {
					e = es[i]
				}
				ask1 = append(ask1, e)
			}
			if c.refused(srv, ask("api", ask1)) {
				c.t.Errorf("%v is refused, and it is said: %s", ask1, s)
			}
		}
	}
	all := &weir.Request{Domain: "api", Lease: "one"}
	for _, l := range set.KeyLists("api") {
		name := strings.Join(l.Keys, "/")
		var one []weir.Entry
		for _, key := range l.Keys {
			e := weir.Entry{Key: key, Value: c.pick(key)}
			if i := slices.IndexFunc(es, func(e weir.Entry) bool { return e.Key == key }); i >= 0 {
				e = es[i]
			}
			one = append(one, e)
		}
		all.Descriptors = append(all.Descriptors, weir.Descriptor{Entries: one})
		has := slices.ContainsFunc(one, func(e weir.Entry) bool { return e.Key == es[0].Key })
		switch {
		case none && c.refused(srv, ask("api", one)):
			c.t.Errorf("%v, which front ends ask about, is refused, and it is said that nothing is that they ask by themselves", one)
		case !none && !cut && !named[name] && !has:
			c.t.Errorf("requests that are asked about by %s are not refused, and it is not said", name)
		}
	}
	if none && c.refused(srv, all) {
		c.t.Errorf("%v, which front ends ask about together, is refused, and it is said that nothing is that they ask by themselves", all.Descriptors)
	}
}
