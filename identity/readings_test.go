package identity_test

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// valuesOf returns the values of one source that a request is counted by, nil if it
// is refused.
func valuesOf(t testing.TB, p *identity.Plan, r *identity.Resolver, f identity.Facts) []string {
	t.Helper()
	c := r.Acquire()
	defer c.Release()
	c.Set(f)
	var req weir.Request
	if err := p.Fill(&req, c); err != nil {
		if _, ok := errors.AsType[*identity.Error](err); !ok || len(req.Descriptors) != 0 {
			t.Fatal(err)
		}
		return nil
	}
	all := []string{}
	for _, d := range req.Descriptors {
		var vs []string
		for _, e := range d.Entries {
			vs = append(vs, e.Value)
		}
		all = append(all, strings.Clone(strings.Join(vs, "+")))
	}
	return all
}

// TestReadings: a value that is there several times counts for each.
func TestReadings(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	plan := func(from ...string) *identity.Plan {
		var d identity.Descriptor
		for _, f := range from {
			d.Entries = append(d.Entries, identity.EntryFrom{From: f})
		}
		p, err := r.Plan([]identity.Descriptor{d})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	f := func(p *identity.Plan, facts identity.Facts, want ...string) {
		t.Helper()
		if got := valuesOf(t, p, r, facts); !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", facts, got, want)
		}
	}
	query, cookie, header := plan("query:user_id"), plan("cookie:user_id"), plan("header:X-User-Id")
	for q, want := range map[string][]string{
		"user_id=a": {"a"}, "user_id=a&user_id=a": {"a"}, "user_id=a&user_id=b": {"a", "b"}, "user_id=a&user_id[]=b&user.id=c&%75ser_id=d": {"a", "b", "c", "d"},
		"x=1;user_id=b": {"b"}, "user_id=a;x=1": {"a;x=1", "a"}, "user_id=&user_id=b": {"b"}, "user_id[]=b": {"b"}, "userid=b": {"b"}, "USER_ID=c": {"c"}, "user_ids=a": {}, "": {},
		"[user_id]=b": {"b"}, "%5Buser_id%5D[x]=b": {"b"}, "user[id=b": {"b"}, "%2575ser_id=b": {"b"}, "%25%37%35ser_id=b": {"b"}, "%A0user_id%00x=b": {"b"}, "x[user_id]=b": {},
		"user_id=b&x=%FF": {"b"}, "user_id=50%25": {"50%"},
	} {
		f(query, withQuery(q), want...)
	}
	for line, want := range map[string][]string{
		"user_id=a; b=c": {"a"}, "user_id=a; user_id=b": {"a", "b"}, "user.id=b": {"b"}, "user_id=%61": {"%61", "a"}, "user_id=s%3Aa": {"s%3Aa", "s:a"},
		"USER_ID=b": {"b"}, "[user_id]=b": {"b"}, "$user_id=b": {"b"}, "user_id=\"b\"": {"b", "\"b\""}, "user_id=b+c": {"b+c", "b c"},
		"__Host-user_id=b": {}, "user_ids=b; x[user_id]=c": {},
	} {
		f(cookie, fields("Cookie", line), want...)
	}
	f(cookie, fields("Cookie", "user_id=a", "Cookie", "user_id=b"), "a", "b")
	f(header, fields("X-User-Id", "a"), "a")
	f(header, fields("X-User-Id", "a", "X-User-Id", "b"), "a, b", "a", "b", "a,b")
	f(header, fields("X--UserId", "a"), "a")
	f(header, fields("X_User_Id", "b"), "b")
	two := fields("X-User-Id", "a", "X_User_Id", "b")
	two.Query = "user_id=c&user_id=d"
	f(plan("header:X-User-Id", "query:user_id", "method"), two, "a+c+GET", "b+c+GET", "a+d+GET", "b+d+GET")
	for _, refused := range []identity.Facts{
		withQuery("user_id=a&x=%u0061"), withQuery("x=5%"), withQuery("user_id=a%FF"), fields("Cookie", "x=1; \xa0user_id=b"), fields("Cookie", "x=caf\u00e9"), fields("Cookie", "x=1;\tuser_id=b"), fields("Cookie", `user_id="\142"`), fields("Cookie", `user_id="b;c"`), withQuery("user_id[=a]=b"), fields("Cookie", "user_id=j:%22b%22"), fields("Cookie", "user_id=j:7"), fields("Cookie", "user_id=a%FFb"), fields("Cookie", "user_id=%C0%AF"),
		fields("Cookie", "x=1, user_id=b"), fields("Cookie", "x=1 user_id=b"), fields("Cookie", "user id=b"), fields("Cookie", "user_id=a, user_id=b"), fields("Cookie", `x="; user_id=b; y="`), fields("Cookie", "user_id=a b"), fields("Cookie", "user_id"),
	} {
		from := query
		if refused.Query == "" {
			from = cookie
		}
		if got := valuesOf(t, from, r, refused); got != nil {
			t.Errorf("%+v is counted for %q", refused, got)
		}
	}
	// Where it is not read it does not matter.
	f(header, withQuery("x=5%"))
	f(query, fields("Cookie", "x=caf\u00e9; \xa0"))
	f(query, withQuery("user_id=0"+strings.Repeat("&user_id=1", 1000)), "0", "1")
	many := ""
	for i := range 17 {
		many += "&user_id=" + string(rune('a'+i))
	}
	if got := valuesOf(t, query, r, withQuery(many)); got != nil {
		t.Errorf("counted for %q", got)
	}
}

// TestFamilyReadings: whichever of several values a server takes, it has counted.
func TestFamilyReadings(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.Of(t), 4))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	r := identitytest.New(t, identity.Options{})
	plans := map[string]*identity.Plan{}
	for _, from := range []string{"query:user_id", "cookie:user_id", "header:X-User-Id"} {
		p, err := r.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: from}}}})
		if err != nil {
			t.Fatal(err)
		}
		plans[from] = p
	}
	many := 10_000
	if os.Getenv("WEIR_SOAK") == "1" {
		many = 2_000_000
	}
	read, several := 0, 0
	for range many {
		f := fields()
		var query, cookie []string
		for range 1 + rnd.IntN(3) {
			v := pick("victim", "x", "y", "%76ictim", "")
			switch rnd.IntN(3) {
			case 0:
				query = append(query, pick("user_id", "user_id", "user.id", "user_id[]", "user_id[0]", "%75ser_id", "user+id", "a")+"="+v)
			case 1:
				cookie = append(cookie, pick("user_id", "user_id", "user.id", "a")+"="+v)
			default:
				name := pick("X-User-Id", "X_user_id", "X.user-Id")
				f.Header[name] = append(f.Header[name], v)
			}
		}
		f.Query = strings.Join(query, pick("&", "&", ";", "&&"))
		if len(cookie) > 0 {
			f.Header["Cookie"] = []string{strings.Join(cookie, pick("; ", ";", ", "))}
		}
		found := map[string][]string{}
		for _, sep := range []string{"&", "&;"} {
			for _, pair := range strings.FieldsFunc(f.Query, func(r rune) bool { return strings.ContainsRune(sep, r) }) {
				if n, v, _ := strings.Cut(pair, "="); folded(n) == "user_id" {
					found["query:user_id"] = append(found["query:user_id"], unescape(v))
				}
			}
		}
		for _, sep := range []string{";", ";,"} {
			for _, pair := range strings.FieldsFunc(strings.Join(f.Header["Cookie"], ";"), func(r rune) bool { return strings.ContainsRune(sep, r) }) {
				if n, v, _ := strings.Cut(pair, "="); folded(n) == "user_id" {
					u, err := url.PathUnescape(v)
					if err != nil {
						t.Fatal(err)
					}
					found["cookie:user_id"] = append(found["cookie:user_id"], v, u)
				}
			}
		}
		for key, lines := range f.Header {
			if identity.SameField(key, "X-User-Id") {
				found["header:X-User-Id"] = append(found["header:X-User-Id"], lines...)
			}
		}
		for from, p := range plans {
			counted := valuesOf(t, p, r, f)
			for _, v := range found[from] {
				if read++; v != "" && counted != nil && !slices.Contains(counted, v) {
					// A value with a separator in it is one to the reader who does not split
					// there, and none to the one who does.
					if strings.ContainsAny(v, ";,") {
						continue
					}
					t.Fatalf("%s: a server reads %q, counted are %q: %+v", from, v, counted, f)
				}
			}
			if len(counted) > 1 {
				several++
			}
		}
	}
	if several < many/20 || read < many {
		t.Errorf("%d values were read, several %d times, of %d: that tries little", read, several, many)
	}
}
