package identity_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// found is what a reader finds in a request: values by name.
type found map[string][]string

func (f found) add(name, value string) { f[name] = append(f[name], value) }

// of returns what a reader finds for a name, in any case if it ignores that.
func (f found) of(name string, anyCase bool) (all []string) {
	for n, values := range f {
		if n == name || anyCase && strings.EqualFold(n, name) {
			all = append(all, values...)
		}
	}
	return all
}

// reader is how some server reads a part of a request. The models were compared with the
// servers that they are named for.
type reader struct {
	read    func(part string) found
	anyCase bool
}

// queryReaders read a query.
var queryReaders = map[string]reader{
	"qs (Express 4)":           {qs, false},
	"URLSearchParams, Tomcat":  {form("&", nil), false},
	"PHP":                      {form("&", phpName), false},
	"PHP, old":                 {form("&", func(n string) string { return phpName(strings.TrimLeft(n, "[")) }), false},
	"Rack":                     {form("&;", rackName), false},
	"Python, old, and Perl":    {form("&;", nil), false},
	"ASP.NET":                  {aspNet, true},
	"a reader that trims":      {form("&", func(n string) string { return strings.TrimFunc(n, isTrimmed) }), true},
	"a reader that decodes on": {form("&", func(n string) string { return unescape(unescape(n)) }), false},
}

// isTrimmed reports whether some reader takes r for white space; the byte a0 alone is an error
// of UTF-8.
func isTrimmed(r rune) bool {
	return r == utf8.RuneError || strings.ContainsRune("\t\n\v\f\r \u00a0\ufeff\x00?", r)
}

// form reads a query as forms are encoded, split at each of the separators.
func form(separators string, rename func(string) string) func(string) found {
	return func(query string) found {
		f := found{}
		for _, pair := range strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			n, v, _ := strings.Cut(pair, "=")
			if n = unescapeBytes(n); rename != nil {
				n = rename(n)
			}
			f.add(n, unescapeBytes(v))
		}
		return f
	}
}

// unescapeBytes decodes what is an escape, and a plus sign.
func unescapeBytes(s string) string {
	b := []byte{}
	for i := 0; i < len(s); i++ {
		if c, err := strconv.ParseUint(s[min(i+1, len(s)):min(i+3, len(s))], 16, 8); s[i] == '%' && err == nil && i+2 < len(s) {
			b = append(b, byte(c))
			i += 2
		} else if s[i] == '+' {
			b = append(b, ' ')
		} else {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// decodeURIComponent is JavaScript's, or text as it is where that throws.
func decodeURIComponent(s string) string {
	if d, err := url.PathUnescape(s); err == nil && utf8.ValidString(d) {
		return d
	}
	return s
}

var bracketed = regexp.MustCompile(`\[[^\[\]]*\]`)

// qs is qs 6.11, as Express 4 asks it.
func qs(query string) found {
	f := found{}
	for i, part := range strings.Split(query, "&") {
		if i == 1000 {
			break
		}
		at := strings.Index(part, "]=")
		if at >= 0 {
			at++
		} else {
			at = strings.IndexByte(part, '=')
		}
		key, value := part, ""
		if at >= 0 {
			key, value = part[:at], part[at+1:]
		}
		decode := func(s string) string { return decodeURIComponent(strings.ReplaceAll(s, "+", " ")) }
		key, value = decode(key), decode(value)
		if key == "" {
			continue
		}
		if s := bracketed.FindStringIndex(key); s != nil && s[0] > 0 {
			key = key[:s[0]]
		} else if s != nil {
			key = key[1 : s[1]-1]
		}
		f.add(key, value)
	}
	return f
}

// phpName is the name of a variable that PHP makes of one.
func phpName(n string) string {
	n = strings.TrimLeft(n, " ")
	if i := strings.IndexByte(n, 0); i >= 0 {
		n = n[:i]
	}
	array := len(n) > 1 && strings.Contains(n[1:], "]")
	for i := range len(n) {
		switch {
		case n[i] == '[' && array:
			return strings.NewReplacer(" ", "_", ".", "_").Replace(n[:i])
		case n[i] == '[':
			return strings.NewReplacer(" ", "_", ".", "_").Replace(n[:i]) + "_" + n[i+1:]
		}
	}
	return strings.NewReplacer(" ", "_", ".", "_").Replace(n)
}

var rackKey = regexp.MustCompile(`^[\[\]]*([^\[\]]+)`)

func rackName(n string) string {
	if m := rackKey.FindStringSubmatch(n); m != nil {
		return m[1]
	}
	return n
}

var escapedUnit = regexp.MustCompile(`%u([0-9a-fA-F]{4})`)

// aspNet decodes %uXXXX, and ignores case.
func aspNet(query string) found {
	f := found{}
	units := func(s string) string {
		return escapedUnit.ReplaceAllStringFunc(s, func(u string) string {
			r, _ := strconv.ParseUint(u[2:], 16, 32)
			return string(rune(r))
		})
	}
	for pair := range strings.SplitSeq(query, "&") {
		n, v, _ := strings.Cut(pair, "=")
		f.add(strings.ToLower(unescapeBytes(units(n))), unescapeBytes(units(v)))
	}
	return f
}

// cookieReaders read a line of cookies.
var cookieReaders = map[string]reader{
	"cookie, cookie-parser (Express)": {expressCookies, false},
	"cookies (Koa)":                   {koaCookies, false},
	"werkzeug":                        {werkzeugCookies, false},
	"SimpleCookie (Django)":           {simpleCookies, false},
	"PHP":                             {phpCookies, false},
	"Rack":                            {rackCookies, false},
	"RFC 2965":                        {oldCookies, true},
}

// javaScriptSpace is what String.trim removes of what a byte can be.
const javaScriptSpace = "\t\n\v\f\r \u00a0"

// latin1 is what servers make text of bytes by.
func latin1(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}

func expressCookies(line string) found {
	f := found{}
	for pair := range strings.SplitSeq(latin1(line), ";") {
		n, v, ok := strings.Cut(pair, "=")
		n, v = strings.Trim(n, javaScriptSpace), strings.Trim(v, javaScriptSpace)
		if !ok || f[n] != nil {
			continue
		}
		if strings.HasPrefix(v, `"`) {
			v = v[1:max(len(v)-1, 1)]
		}
		v = decodeURIComponent(v)
		var text any
		if rest, ok := strings.CutPrefix(v, "j:"); ok && json.Unmarshal([]byte(rest), &text) == nil {
			switch text := text.(type) {
			case string:
				v = text
			case float64:
				v = strconv.FormatFloat(text, 'g', -1, 64)
			}
		}
		f[n] = []string{v}
	}
	return f
}

func koaCookies(line string) found {
	f := found{}
	for pair := range strings.SplitSeq(line, ";") {
		if n, v, ok := strings.Cut(strings.TrimLeft(pair, " "), "="); ok && f[n] == nil {
			if strings.HasPrefix(v, `"`) {
				v = v[1:max(len(v)-1, 1)]
			}
			f[n] = []string{v}
		}
	}
	return f
}

// pythonSpace is what str.strip removes of what a byte can be.
const pythonSpace = "\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0"

var octal = regexp.MustCompile(`\\([0-3][0-7][0-7]|.)`)

// unquote is http.cookies._unquote.
func unquote(v string) string {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return v
	}
	return octal.ReplaceAllStringFunc(v[1:len(v)-1], func(e string) string {
		if c, err := strconv.ParseUint(e[1:], 8, 8); err == nil && len(e) == 4 {
			return string([]byte{byte(c)})
		}
		return e[1:]
	})
}

func werkzeugCookies(line string) found {
	f := found{}
	for pair := range strings.SplitSeq(latin1(line), ";") {
		n, v, ok := strings.Cut(pair, "=")
		if n = strings.Trim(n, pythonSpace); ok && n != "" {
			f.add(n, unquote(strings.Trim(v, pythonSpace)))
		}
	}
	return f
}

const legalKey = "[\\w!#%&'~_`><@,:/$*+\\-.^|)(?}{=]"

var simplePair = regexp.MustCompile(`^\s*(` + legalKey + `+?)\s*(?:\s*=\s*("(?:[^\\"]|\\.)*"|(?:` + legalKey + `|[\[\]])*))?\s*(?:\s+|;|$)`)

func simpleCookies(line string) found {
	f := found{}
	for rest := line; rest != ""; {
		m := simplePair.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		if m[4] < 0 {
			return found{} // not a cookie string: nothing is loaded
		}
		f[rest[m[2]:m[3]]] = []string{unquote(rest[m[4]:m[5]])} // the last one stays
		rest = rest[m[1]:]
	}
	return f
}

func phpCookies(line string) found {
	f := found{}
	for pair := range strings.SplitSeq(line, ";") {
		if n, v, ok := strings.Cut(strings.TrimLeft(pair, "\t\n\v\f\r "), "="); ok {
			f.add(phpName(n), unescapeBytes(v))
			f.add(phpName(unescapeBytes(n)), unescapeBytes(v)) // PHP 7
		}
	}
	return f
}

func rackCookies(line string) found {
	f := found{}
	for _, pair := range strings.FieldsFunc(line, func(r rune) bool { return r == ';' || r == ',' }) {
		n, v, _ := strings.Cut(strings.TrimLeft(pair, " "), "=")
		f.add(unescapeBytes(n), unescapeBytes(v))
	}
	return f
}

// oldCookies splits at commas too, and reads $ names and any case.
func oldCookies(line string) found {
	f := found{}
	for _, pair := range strings.FieldsFunc(line, func(r rune) bool { return r == ';' || r == ',' }) {
		n, v, _ := strings.Cut(pair, "=")
		if v = strings.Trim(v, " \t"); len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
			v = v[1 : len(v)-1]
		}
		f.add(strings.TrimLeft(strings.Trim(n, " \t"), "$"), v)
	}
	return f
}

// headerReaders read the lines of header fields.
var headerReaders = map[string]func(h http.Header, name string) []string{
	"by its name": func(h http.Header, name string) []string {
		lines := h[http.CanonicalHeaderKey(name)]
		return append(slices.Clone(lines), joined(lines)...)
	},
	"a variable (CGI, WSGI, PHP)": func(h http.Header, name string) (all []string) {
		for key, lines := range h {
			if notAlnum.ReplaceAllString(strings.ToUpper(key), "_") == notAlnum.ReplaceAllString(strings.ToUpper(name), "_") {
				all = append(append(all, lines...), joined(lines)...)
			}
		}
		return all
	},
}

// joined are lines as servers join them.
func joined(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	return []string{strings.Join(lines, ", "), strings.Join(lines, ",")}
}

// everyReading returns what the readers find in a request for a source, by reader.
func everyReading(f identity.Facts, from string) map[string][]string {
	all := map[string][]string{}
	kind, name, _ := strings.Cut(from, ":")
	switch kind {
	case "query":
		for who, r := range queryReaders {
			all[who] = r.read(f.Query).of(name, r.anyCase)
		}
	case "cookie":
		for who, r := range cookieReaders {
			for _, line := range f.Header["Cookie"] {
				all[who] = append(all[who], r.read(line).of(name, r.anyCase)...)
			}
		}
	case "header":
		for who, read := range headerReaders {
			all[who] = read(f.Header, name)
		}
	}
	return all
}

// doubtful makes requests of which one part may be read in several ways: of names, their
// spellings, separators, and values of which few are there.
func doubtful(rnd *rand.Rand, kind string, values []string) identity.Facts {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	strange := 2 + rnd.IntN(12) // one part in so many is
	seldom := func(of ...string) string {
		if rnd.IntN(strange) > 0 {
			return ""
		}
		return pick(of...)
	}
	f := fields()
	around := []string{"[", "]", "[]", "[0]", "[x]", "%5B", "%5D", "+", "%20", "%A0", "%C2%A0", "%00", "%00x", ".", "_", "-", "?", "%FE", "%0d", "$", "%EF%BB%BF", "%", "%25", "[x][y]", "][", "__proto__", "x"}
	core := []string{"api_key", "api_key", "api_key", "api_key", "x", "page", "q", "[api_key]", "api[key", "api.key", "API_KEY", "Api-Key", "%61pi_key", "%2561pi_key", "%25%36%31pi_key", "ap%u0069_key", "apikey", "api%5Fkey", "api_keys", "key", "x"}
	switch kind {
	case "query":
		for i := range 1 + rnd.IntN(3) {
			if i > 0 {
				f.Query += pick("&", seldom(";", "&&", "&amp;", ",", "?")+"&")
			}
			f.Query += seldom(around...) + pick(core...) + seldom(around...) + "=" + seldom("=", "]=", "[=") + seldom("+", "%20", "%22", "[", "%00") + pick(values...) + seldom("+", "%0a", ",x", "]=x", "%FF", ";x")
		}
	case "cookie":
		line := seldom("\xa0", "$Version=1; ", "; ", "a=b, ", "a=b ", "a=\"; ", "caf\u00e9=1; ")
		for i := range 1 + rnd.IntN(3) {
			if i > 0 {
				line += pick("; ", seldom(", ", ",", " ", ";\t", "&", "\";")+";")
			}
			cookieAround := append([]string{"\xa0", "\t", " ", "\"", "\v", "\x85"}, around...)
			line += seldom(cookieAround...) + pick(append(core, "api key", "$api_key")...) + seldom(cookieAround...) + pick("=", "="+seldom("=", " ")) + seldom("\"", " ", "j:", "\xa0", "+", "j:\"") + pick(values...) + seldom("\"", " ", ",x", " x", "\\", "\xa0", "+", "%20")
		}
		f.Header["Cookie"] = []string{line}
	default:
		for range 1 + rnd.IntN(2) {
			name := pick("Api_key", "Api_key", "Api-Key", "Api.key", "Api~Key", "Api-Keys")
			f.Header[name] = append(f.Header[name], strings.Trim(seldom("x, ", "\"")+pick(values...)+seldom("\"", ", x", ",x"), " "))
		}
	}
	return f
}

// soak returns how many requests to try.
func soak(short, long int) int {
	if os.Getenv("WEIR_SOAK") == "1" {
		return long
	}
	return short
}

// TestFamilyReadersOfCredentials: of a request that passes, every reader who finds a
// credential finds the one that was counted.
func TestFamilyReadersOfCredentials(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.Of(t), 7))
	for _, kind := range []string{"query", "cookie", "header"} {
		r := byKeys(t, kind+":api_key")
		counted, refused := 0, 0
		many := soak(4_000, 1_000_000)
		for range many {
			f := doubtful(rnd, kind, []string{knownKey, knownKey, "%52EALkey0123456789", noKey, `\122EALkey0123456789`, ""})
			user, no := asked(t, r, f)
			if no {
				refused++
				continue
			}
			if user != "" {
				counted++
			}
			for who, values := range everyReading(f, kind+":api_key") {
				for _, v := range values {
					if (v == knownKey) != (user == "alice") && v != "" && (v == knownKey || !strings.ContainsAny(v, " ,;\"")) {
						t.Fatalf("%s of %s finds %q, the user counted is %q: %+v", who, kind, v, user, f)
					}
				}
			}
		}
		if counted < many/200 || refused < many/4 {
			t.Errorf("%s: %d counted, %d refused, of %d: that tries little", kind, counted, refused, many)
		}
	}
}

// TestFamilyReadersOfValues: of a request that passes, every value that a reader finds has
// counted.
func TestFamilyReadersOfValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.Of(t), 8))
	r := identitytest.New(t, identity.Options{})
	for _, kind := range []string{"query", "cookie", "header"} {
		p, err := r.Plan([]identity.Descriptor{of(kind + ":api_key")})
		if err != nil {
			t.Fatal(err)
		}
		read, several := 0, 0
		many := soak(4_000, 1_000_000)
		for range many {
			f := doubtful(rnd, kind, []string{"victim", "victim", "%76ictim", "v+w", "a%40b", "7", "%22victim%22", ""})
			counted := valuesOf(t, p, r, f)
			if counted == nil {
				continue
			}
			if len(counted) > 1 {
				several++
			}
			for who, values := range everyReading(f, kind+":api_key") {
				for _, v := range values {
					if v != "" && identity.Fits(v) {
						if read++; !slices.Contains(counted, v) {
							t.Fatalf("%s of %s finds %q, counted are %q: %+v", who, kind, v, counted, f)
						}
					}
				}
			}
		}
		if read < many/4 || several < many/50 {
			t.Errorf("%s: %d values read, several in %d, of %d: that tries little", kind, read, several, many)
		}
	}
}

// TestOrdinaryRequestsPass: what people write passes, and is counted once.
func TestOrdinaryRequestsPass(t *testing.T) {
	for _, kind := range []string{"header", "query", "cookie"} {
		r := byKeys(t, kind+":api_key")
		for _, query := range []string{
			"", "a=b", "filter[name]=x&filter[api_key]=y", "ids[]=1&ids[]=2", "sort=-created&page[size]=10", "q=50%25+off", "q=a%2Bb", "utm_source=x&utm_campaign=50%25", "_=1700000000", "name=caf%C3%A9", "%D0%B8%D0%BC%D1%8F=x", "a&b&c", "a=b=c", "x={y}|z", "redirect=https%3A%2F%2Fx%3Fapi_key%3Dy", "api_keys=1&my_api_key=2&key=3", "a=b;c=d", "=", "&&",
		} {
			if _, refused := asked(t, r, withQuery(query)); refused {
				t.Errorf("%s: %q is refused", kind, query)
			}
		}
		odd := []string{"a=\xa0", "caf\u00e9=1", "prefs={\"a\":\"\u00e9\"}", "x=\x01"}
		clear := []string{"_ga=GA1.2.3; _gid=4", "a=\"b\"; c=d", "prefs={\"a\":1,\"b\":[2]}", "a=b, c=d", "OptanonConsent=isGpcEnabled=0&datestamp=Sat+Nov+28+2026&x=%2C", "connect.sid=s%3Aabc.def%2Bghi", "a=100%; b=%", "a", "a=b; HttpOnly", "api_keys=1; my_api_key=2; __Host-api_key=3"}
		for _, line := range append(clear, odd...) {
			if _, refused := asked(t, r, fields("Cookie", line)); refused != (kind == "cookie" && slices.Contains(odd, line)) {
				t.Errorf("%s: the cookies %q are refused: %v", kind, line, refused)
			}
		}
		for _, line := range []string{"5%", "caf\u00e9", "a, b", "\""} {
			if _, refused := asked(t, r, fields("X-Other", line, "X-Api", line, "User-Agent", line)); refused {
				t.Errorf("%s: the field %q is refused", kind, line)
			}
		}
	}
	if _, refused := asked(t, byKeys(t, "header:X-Api-Key", "cookie:api_key"), withQuery("q=5%&x=%u0061&[api_key]=x")); refused {
		t.Error("a query is refused that no credential is read from")
	}
	// Beside values that are limited, once.
	r := identitytest.New(t, identity.Options{})
	for _, f := range []identity.Facts{withQuery("account=a&page=2&filter[name]=x"), withQuery("account=a%20b"), withQuery("account=caf%C3%A9"), fields("Cookie", "a=b; sid=s%3Aabc.def%2Bghi"), fields("Cookie", "sid=YWJj+/ZGVm=="), fields("X-Account", "a, b")} {
		if got := chargedBy(t, r, f, of("query:account"), of("cookie:sid"), of("header:X-Account"), of("remote_address")); slices.Index(got, "remote_address=192.0.2.1") < 0 || strings.Count(strings.Join(got, " "), "remote_address") != 1 {
			t.Errorf("%+v: charged %q", f, got)
		}
	}
	for _, o := range []identity.Options{{APIKey: identity.APIKeyOptions{From: []string{"query:_"}}}, {APIKey: identity.APIKeyOptions{From: []string{"cookie:$"}}}} {
		if r, err := identity.New(o); err == nil {
			t.Errorf("%v is taken", o.APIKey.From)
			r.Close()
		}
	}
	if identity.CheckSource("query:-") == nil {
		t.Error("a name without a letter is taken")
	}
}

// TestAddressIsChargedAsOften: one request is for as many as it has values, so that nobody
// spends the accounts of others at the price of one.
func TestAddressIsChargedAsOften(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	accounts := func(n int) (query string) {
		for i := range n {
			query += "&account=u" + strconv.Itoa(i)
		}
		return query[1:]
	}
	for n := 1; n <= 16; n++ {
		f := withQuery(accounts(n))
		f.Header["Cookie"] = []string{"sid=a; sid=b"}
		got := map[string]int{}
		for _, d := range chargedBy(t, r, f, of("remote_address"), of("query:account"), of("remote_address", "method"), of("query:account", "remote_address"), of("cookie:sid", "remote_address")) {
			got[d]++
		}
		want := map[string]int{"remote_address=192.0.2.1": max(n, 2), "remote_address=192.0.2.1,method=GET": max(n, 2)}
		each := func(prefix string, values []string, times int) {
			for _, v := range values {
				want[prefix+v] += times
			}
		}
		var users []string
		for i := range n {
			users = append(users, "u"+strconv.Itoa(i))
		}
		// One account counts as often as two cookies are read.
		times := (max(n, 2) + n - 1) / n
		each("query:account=", users, times)
		for _, u := range users {
			want["query:account="+u+",remote_address=192.0.2.1"] += times
		}
		for _, sid := range []string{"a", "b"} {
			want["cookie:sid="+sid+",remote_address=192.0.2.1"] += (max(n, 2) + 1) / 2
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d accounts: charged %v, want %v", n, got, want)
		}
	}
	p, err := r.Plan([]identity.Descriptor{of("query:account"), of("remote_address")})
	if err != nil {
		t.Fatal(err)
	}
	if got := valuesOf(t, p, r, withQuery(accounts(17))); got != nil {
		t.Errorf("17 accounts are charged as %q", got)
	}
}
