package identity_test

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// knownKey is in the file of keys, as alice's; noKey is not.
const (
	knownKey = "REALkey0123456789"
	noKey    = "junk"
)

// byKeys returns a resolver of API keys from everywhere.
func byKeys(t testing.TB, from ...string) *identity.Resolver {
	return identitytest.New(t, identity.Options{
		APIKey: identity.APIKeyOptions{From: from}, User: []string{"api_key"},
		Keys: identitytest.Keys(t, "keys.yaml", "- {sha256: "+identitytest.Digest(knownKey)+", user: alice}\n"),
	})
}

// asked returns the user that a request is counted as, or that it is refused.
func asked(t testing.TB, r *identity.Resolver, f identity.Facts) (user string, refused bool) {
	t.Helper()
	identitytest.Fill(t, r, f, func(req *weir.Request, err error) {
		if err != nil {
			if bad, ok := errors.AsType[*identity.Error](err); !ok || bad.Status != 400 || len(req.Descriptors) != 0 {
				t.Fatalf("%+v: %v", f, err)
			}
			refused = true
		} else if len(req.Descriptors) == 2 {
			user = strings.Clone(req.Descriptors[1].Entries[0].Value)
		}
	}, identity.Descriptor{Entries: []identity.EntryFrom{{From: "remote_address"}}}, identity.Descriptor{Entries: []identity.EntryFrom{{From: "user"}}})
	return user, refused
}

// fields makes a header of names and values.
func fields(pairs ...string) identity.Facts {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		key := http.CanonicalHeaderKey(pairs[i])
		h[key] = append(h[key], pairs[i+1])
	}
	return identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Path: "/", Header: h}
}

func withQuery(query string) identity.Facts {
	f := fields()
	f.Query = query
	return f
}

// TestCredentialsThatAreClear: one credential, in its own form, is counted; what
// is no credential passes.
func TestCredentialsThatAreClear(t *testing.T) {
	const all = "bearer,header:X-API-Key,cookie:api_key,query:api_key"
	f := func(from, want string, facts identity.Facts) {
		t.Helper()
		if got, refused := asked(t, byKeys(t, strings.Split(from, ",")...), facts); got != want || refused {
			t.Errorf("%s: %+v: user %q, refused %v, want %q", from, facts, got, refused, want)
		}
	}
	for _, line := range []string{"Bearer " + knownKey, "bearer " + knownKey, "BEARER " + knownKey, " Bearer " + knownKey + " "} {
		f(all, "alice", fields("Authorization", line))
		f("header:X-API-Key", "", fields("Authorization", line))
	}
	f(all, "alice", fields("X-Api-Key", " "+knownKey+" "))
	f(all, "alice", fields("Cookie", "api_key="+knownKey))
	f(all, "alice", fields("Cookie", "a=b; api_key="+knownKey+"; c=\"x, y\"; api_keys=1; my_api_key=2"))
	f(all, "alice", withQuery("api_key="+knownKey))
	f(all, "alice", withQuery("a=b;c&api_key=%52EALkey0123456789&api_keys[]=2&x=%25zz"))
	// The same one twice, in places of its own, is one.
	f(all, "alice", fields("X-Api-Key", knownKey, "Authorization", "Bearer "+knownKey, "Cookie", "api_key="+knownKey))
	// What is of another kind is nobody's.
	for _, line := range []string{"Basic YWxpY2U6c2VjcmV0", "Digest username=\"a, bearer\", realm=\"x\", uri=\"/\"", "Negotiate abc==", "Bearer", "", "BearerToken x", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;range, Signature=c"} {
		f(all, "", fields("Authorization", line))
		f(all, "alice", fields("Authorization", line, "X-Api-Key", knownKey))
	}
	f(all, "", fields("Authorization", "Bearer 1|laravel:token"))
	f("header:X-API-Key", "alice", fields("Authorization", "Basic a", "Authorization", "Bearer b", "X-Api-Key", knownKey))
	f("header:X-API-Key", "alice", fields("Cookie", "api_key=a", "Cookie", "api_key=b", "X-Api-Key", knownKey))
	f("header:Authorization", "", fields("Authorization", "ApiKey "+knownKey))
	f("header:Authorization", "alice", fields("Authorization", knownKey))
	f(all, "", fields("X-Api-Key", "", "Cookie", "", "X-Other-Key", "a, b"))
	f(all, "", fields("X-Api-Key", noKey))
	f(all, "", withQuery("api_key=&x=1"))
}

// TestCredentialsThatAreUnclear: what one reader takes for a credential and
// another does not, or for another one, is refused.
func TestCredentialsThatAreUnclear(t *testing.T) {
	r := byKeys(t, "bearer", "header:X-API-Key", "cookie:api_key", "query:api_key")
	f := func(facts identity.Facts) {
		t.Helper()
		if user, refused := asked(t, r, facts); !refused {
			t.Errorf("%+v: counted as user %q", facts, user)
		}
	}
	const b = "Bearer " + knownKey
	for _, lines := range [][]string{{b, "Bearer " + noKey}, {"Bearer " + noKey, b}, {b, b}, {"Basic eA==", b}, {b, ""}} {
		f(fields("Authorization", lines[0], "Authorization", lines[1]))
	}
	for _, line := range []string{
		"Bearer\t" + knownKey, "Bearer  " + knownKey, "Bearer \t" + knownKey, "Bearer\u00a0" + knownKey, "Bearer\v" + knownKey, "Bearer:" + knownKey, "Bearer=" + knownKey, "Bearer," + knownKey,
		b + " x", b + ",x", b + ", Bearer " + noKey, "Bearer \"" + knownKey + "\"", "\"" + b + "\"", b + ";x", "Basic x, " + b, "x " + b, "x" + b, "Basic eA== " + b,
		"Token " + knownKey, knownKey, "Basic " + knownKey, "Key token=\"" + knownKey + "\"", "Bearer\u2003" + knownKey,
		"Bearer :" + knownKey, "Bearer =" + knownKey, "Bearer token=" + knownKey, "Bearer ::" + knownKey, "Bearer =",
	} {
		f(fields("Authorization", line))
	}
	for _, name := range []string{"X_Api_Key", "X-Api_Key", "X_API-KEY", "x.api.key", "X~Api~Key", "X-Api.Key"} {
		f(fields(name, knownKey))
		f(fields(name, noKey, "X-Api-Key", knownKey))
		f(fields(name, ""))
	}
	for _, lines := range [][]string{{knownKey, noKey}, {noKey, knownKey}, {knownKey, knownKey}, {"", knownKey}} {
		f(fields("X-Api-Key", lines[0], "X-Api-Key", lines[1]))
	}
	for _, v := range []string{knownKey + ", junk", "junk, " + knownKey, knownKey + " x", "\"" + knownKey + "\"", knownKey + ";x", "Bearer " + knownKey, knownKey + "\u00a0", "x\\" + knownKey} {
		f(fields("X-Api-Key", v))
	}
	const c = "api_key=" + knownKey
	for _, line := range []string{
		"api_key=junk; " + c, c + "; api_key=junk", c + "; " + c, "api_key=junk;" + c, "a=b, " + c, "a=b," + c, "a=b " + c, "a=b\t" + c, "api_key=\"" + knownKey + "\"", "a=\"; " + c + "; b=\"",
		"api_key =" + knownKey, "api_key= " + knownKey, "api_key=%52EALkey0123456789", "api_key=%2552EALkey0123456789", "%61pi_key=" + knownKey, "API_KEY=" + knownKey, "api.key=" + knownKey, "api key=" + knownKey,
		"api_key[]=" + knownKey, "api_key[0]=" + knownKey, "=" + c, "api_key; " + c, c + " x", c + ",x", "a=\"" + c + "\"", "api_key=; " + c, "$Version=1, " + c, "; " + c, "a=b;; " + c, "api_key=j:1234567890123456", "api_key=j%3A1234567890123456",
	} {
		f(fields("Cookie", line))
	}
	f(fields("Cookie", "a=b", "Cookie", c))
	f(fields("Cookie", c, "Cookie", "a=b"))
	for _, query := range []string{
		"api_key=junk&" + c, c + "&api_key=junk", c + "&" + c, "a=b;" + c, c + ";a=b", "api_key[]=" + knownKey, "api_key[]=junk&" + c, "api_key%5B%5D=" + knownKey, "api_key[0]=" + knownKey,
		"%61pi_key=" + knownKey, "%61pi_key=junk&" + c, "api%5fkey=" + knownKey, "api%255fkey=" + knownKey, "API_KEY=" + knownKey, "api.key=" + knownKey, "api+key=" + knownKey, "+api_key=" + knownKey, "api_key+=" + knownKey,
		"api_key%00=" + knownKey, "?" + c, "a=1&amp;" + c, "api_key=+" + knownKey, "api_key=%20" + knownKey, "api_key=%2552EALkey0123456789", "api_key&" + c, "api_key=" + knownKey + "%00", "api_key=%zz", "api_key=" + knownKey + ",x",
	} {
		f(withQuery(query))
	}
	// Different ones in two places.
	junk := withQuery("api_key=" + noKey)
	junk.Header = http.Header{"X-Api-Key": {knownKey}}
	f(junk)
	junk.Header, junk.Query = http.Header{"X-Api-Key": {noKey}}, c
	f(junk)
	f(fields("Authorization", "Bearer "+noKey, "Cookie", c))
	// What is to be removed on the way.
	for _, name := range []string{"X-Api-Key", "authorization", "close, x-api-key", "Cookie", "x_api_key"} {
		f(fields("Connection", name, "X-Api-Key", knownKey))
	}
}

// TestTokensThatAreUnclear: a signed token is one, in the form that signers write.
func TestTokensThatAreUnclear(t *testing.T) {
	tokens := identitytest.Tokens(t, credentials.JWTOptions{
		KeyFile: identitytest.Write(t, "keys.pem", string(identitytest.PublicPEM(identitytest.ECKey().Public()))), Now: identitytest.Fixed,
	})
	tokens.From = []string{"bearer", "cookie:session", "query:token"}
	r := identitytest.New(t, identity.Options{
		User: []string{"jwt:sub"}, APIKey: identity.APIKeyOptions{From: []string{"header:X-API-Key", "bearer"}}, Token: tokens,
	})
	token, other := identitytest.Sign(t, jose.ES256, identitytest.ECKey(), "", identitytest.Good), identitytest.Sign(t, jose.ES256, identitytest.ECKey(), "", identitytest.Good)
	f := func(want string, refused bool, facts identity.Facts) {
		t.Helper()
		if got, no := asked(t, r, facts); got != want || no != refused {
			t.Errorf("%+v: user %q, refused %v", facts, got, no)
		}
	}
	f("alice", false, fields("Authorization", "Bearer "+token))
	f("alice", false, fields("Cookie", "session="+token))
	f("alice", false, fields("Authorization", "Bearer opaque", "Cookie", "session="+token))
	f("alice", false, fields("Cookie", "session=opaque", "Authorization", "Bearer "+token))
	f("alice", false, fields("X-API-Key", "key", "Authorization", "Bearer "+token))
	f("alice", false, fields("Cookie", "session="+token, "Authorization", "Bearer "+token))
	f("", false, fields("Authorization", "Bearer opaque.token"))
	f("", true, fields("Authorization", "Bearer "+token, "Cookie", "session="+other))
	f("", true, fields("Authorization", "Bearer "+token, "Authorization", "Bearer opaque"))
	f("", true, fields("X-API-Key", "key", "Authorization", "Bearer another"))
	for _, v := range []string{token + "=", token + ".", token + ".x", "." + token, token + "~", strings.Replace(token, ".", "..", 1), token + "+", token + "%41", token + ":", token[:len(token)-1] + "/"} {
		f("", true, fields("Authorization", "Bearer "+v))
	}
	for _, line := range []string{"JWT " + token, "Token " + token, token, "Bearer\t" + token, "Token token=" + token} {
		f("", true, fields("Authorization", line))
	}
}

// TestProxyFieldsThatAreUnclear: what a trusted proxy says, it says once.
func TestProxyFieldsThatAreUnclear(t *testing.T) {
	r := identitytest.New(t, identity.Options{
		User: []string{"header:X-User"}, MethodOverride: "X-HTTP-Method-Override",
		Proxies: identity.ProxyOptions{Trusted: prefixes("192.0.2.1/32")},
	})
	f := func(want string, refused bool, facts identity.Facts) {
		t.Helper()
		if got, no := asked(t, r, facts); got != want || no != refused {
			t.Errorf("%+v: user %q, refused %v", facts, got, no)
		}
	}
	f("alice, bob", false, fields("X-User", "alice, bob"))
	f("", true, fields("X-User", "alice", "X-User", "bob"))
	f("", true, fields("X-User", "alice", "Connection", "x-user"))
	f("", true, fields("X-Http-Method-Override", "PUT", "X-Http-Method-Override", "GET"))
	f("", true, fields("X_Http_Method_Override", "PUT"))
	stranger := fields("X-User", "alice", "X-User", "bob")
	stranger.Peer = netip.MustParseAddr("192.0.2.2")
	f("", false, stranger)
}

// TestTargetsThatAreUnclear: what has to be escaped in a target, and is not, is
// refused, in the path and in the query, whatever is asked for.
func TestTargetsThatAreUnclear(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	p, err := r.Plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	for b := range 256 {
		ch := string([]byte{byte(b)})
		clear := b > ' ' && b < 0x7f && !strings.Contains(`"#<>`, ch)
		for _, f := range []identity.Facts{{Path: "/a" + ch + "b"}, {Path: "/a", Query: "b" + ch + "c"}} {
			c := r.Acquire()
			c.Set(f)
			var req weir.Request
			if err := p.Fill(&req, c); (err == nil) != clear {
				t.Errorf("%+v: %v", f, err)
			}
			c.Release()
			hr := &http.Request{Method: "GET", Host: "h", RemoteAddr: "192.0.2.1:1", RequestURI: f.Path + "?" + f.Query, URL: &url.URL{Path: f.Path, RawQuery: f.Query}}
			c = r.Acquire()
			c.SetHTTP(hr)
			if err := c.Check(); (err == nil) != clear {
				t.Errorf("over HTTP, %+v: %v", f, err)
			}
			c.Release()
		}
	}
}

// careless are readers of credentials, each as some server has one. What one of
// them finds, beside those that read by the rules, must be what is counted.
var careless = map[string]func(f identity.Facts) []string{
	"bearer, first line": func(f identity.Facts) []string {
		if lines := f.Header["Authorization"]; len(lines) > 0 {
			return afterSpace(lines[0])
		}
		return nil
	},
	"bearer, last line": func(f identity.Facts) []string {
		if lines := f.Header["Authorization"]; len(lines) > 0 {
			return afterSpace(lines[len(lines)-1])
		}
		return nil
	},
	"bearer, joined": func(f identity.Facts) []string {
		all := strings.Join(f.Header["Authorization"], ", ")
		var out []string
		for _, m := range bearerAnywhere.FindAllStringSubmatch(all, -1) {
			out = append(out, m[1])
		}
		for part := range strings.SplitSeq(all, ",") {
			out = append(out, afterSpace(strings.TrimSpace(part))...)
		}
		return out
	},
	"header, folded": func(f identity.Facts) []string {
		var out []string
		for key, lines := range f.Header {
			if notAlnum.ReplaceAllString(strings.ToUpper(key), "_") != "X_API_KEY" {
				continue
			}
			for _, part := range append(strings.Split(strings.Join(lines, ","), ","), lines...) {
				out = append(out, strings.Trim(part, " \t\""))
			}
		}
		return out
	},
	"cookies": func(f identity.Facts) []string {
		var out []string
		for _, sep := range []string{";", ";,", ";, \t"} {
			all := strings.Join(f.Header["Cookie"], "; ")
			for _, pair := range strings.FieldsFunc(all, func(r rune) bool { return strings.ContainsRune(sep, r) }) {
				n, v, _ := strings.Cut(strings.TrimLeft(strings.Trim(pair, " \t\""), "="), "=")
				if strings.EqualFold(folded(n), "api_key") {
					out = append(out, strings.Trim(v, " \t\""), unescape(strings.Trim(v, " \t\"")))
				}
			}
		}
		return out
	},
	"parameters": func(f identity.Facts) []string {
		var out []string
		for _, sep := range []string{"&", "&;"} {
			for _, pair := range strings.FieldsFunc(f.Query, func(r rune) bool { return strings.ContainsRune(sep, r) }) {
				n, v, _ := strings.Cut(strings.TrimLeft(pair, "?"), "=")
				if strings.EqualFold(folded(n), "api_key") {
					out = append(out, strings.Trim(unescape(v), " \t\""), unescape(unescape(v)))
				}
			}
		}
		return out
	},
}

var (
	bearerAnywhere = regexp.MustCompile(`(?i)bearer[\s:]+(?:token=)?"?([^\s,;"]+)`)
	notAlnum       = regexp.MustCompile(`[^A-Z0-9]`)
	notAlnumBytes  = regexp.MustCompile(`[^A-Za-z0-9]`)
)

func afterSpace(line string) []string {
	if f := strings.Fields(line); len(f) > 1 {
		return []string{f[1], f[len(f)-1]}
	}
	return nil
}

func unescape(s string) string {
	if v, err := url.QueryUnescape(s); err == nil {
		return v
	}
	return s
}

// folded is a name as PHP has it.
func folded(name string) string {
	name = unescape(unescape(name))
	if i := strings.IndexAny(name, "[\x00"); i >= 0 {
		name = name[:i]
	}
	return notAlnumBytes.ReplaceAllString(strings.Trim(name, " \t"), "_")
}

// checkCredentials fails if some reader finds a known key and it is not the one
// that is counted.
func checkCredentials(t testing.TB, r *identity.Resolver, f identity.Facts) (counted, refused bool) {
	t.Helper()
	user, refused := asked(t, r, f)
	if refused {
		return false, true
	}
	for name, read := range careless {
		if found := read(f); slices.Contains(found, knownKey) && user != "alice" {
			t.Errorf("%s finds the key, and nobody is counted: %+v", name, f)
		} else if user == "alice" && !strings.HasPrefix(name, "bearer") && slices.ContainsFunc(found, func(v string) bool { return v != knownKey && v != "" }) && !slices.Contains(found, knownKey) {
			t.Errorf("%s finds %q, and alice is counted: %+v", name, found, f)
		}
	}
	return user == "alice", false
}

// spelling makes requests with credentials out of parts of them.
func spelling(rnd *rand.Rand) identity.Facts {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	few := func(of ...string) string {
		var b strings.Builder
		for range 1 + rnd.IntN(6) {
			b.WriteString(pick(of...))
		}
		return b.String()
	}
	f := fields()
	if rnd.IntN(4) == 0 {
		switch rnd.IntN(4) {
		case 0:
			f.Header["Authorization"] = []string{"Bearer " + knownKey}
		case 1:
			f.Header["X-Api-Key"] = []string{knownKey}
		case 2:
			f.Header["Cookie"] = []string{"a=b; api_key=" + knownKey}
		default:
			f.Query = "a=b&api_key=" + knownKey
		}
		if rnd.IntN(2) == 0 {
			return f
		}
	}
	key := pick(knownKey, knownKey, noKey, "%52EALkey0123456789", "\""+knownKey+"\"", "")
	for range 1 + rnd.IntN(2) {
		switch rnd.IntN(4) {
		case 0:
			f.Header.Add("Authorization", few("Bearer", "bearer", " ", "\t", ",", key, knownKey, "Basic", "=", "token=", "\"", ";", "x", ":", "\u00a0"))
			if rnd.IntN(2) == 0 {
				f.Header["Authorization"] = []string{pick("Bearer ", "Bearer\t", "Bearer  ", "Bearer :", "Bearer token=", "Token ", "") + key + pick("", " ", ",", ", x")}
			}
		case 1:
			name := http.CanonicalHeaderKey(pick("X-Api-Key", "X-Api-Key", "X_Api_Key", "X-Api_key", "X.Api.Key", "Connection"))
			f.Header[name] = append(f.Header[name], pick("", "x, ", "X-Api-Key")+key+pick("", ",x", " "))
		case 2:
			f.Header.Add("Cookie", few("api_key", "=", ";", "; ", ",", " ", key, knownKey, "api_key=", "a=b", "\"", "API_KEY=", "%61pi_key=", "api_key[]="))
			if rnd.IntN(2) == 0 {
				f.Header["Cookie"] = []string{pick("", "a=b; ", "a=b, ", "a=\"") + pick("api_key", "api_key", "Api_Key", "api.key") + "=" + key + pick("", ";", "; c=d", "\"")}
			}
		default:
			f.Query = few("api_key", "=", ";", "&", "+", key, knownKey, "api_key=", "a=b", "?", "API_KEY=", "%61pi_key=", "api_key[]=", "%00", "amp;")
			if rnd.IntN(2) == 0 {
				f.Query = pick("", "a=b&", "a=b;") + pick("api_key", "api_key", "Api_Key", "api.key", "api_key%5b%5d") + "=" + key + pick("", "&", "&c=d", "%00", "+")
			}
		}
	}
	return f
}

// TestFamilyCredentialsReadAlike: whatever a request with credentials looks like,
// it is refused, or every reader finds the one that is counted.
func TestFamilyCredentialsReadAlike(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.Of(t), 1))
	r := byKeys(t, "bearer", "header:X-API-Key", "cookie:api_key", "query:api_key")
	many := 20_000
	if os.Getenv("WEIR_SOAK") == "1" {
		many = 1_000_000
	}
	counts, refusals := 0, 0
	for range many {
		counted, refused := checkCredentials(t, r, spelling(rnd))
		if counted {
			counts++
		}
		if refused {
			refusals++
		}
		if t.Failed() {
			break
		}
	}
	if counts < many/100 || refusals < many/100 || counts+refusals > many*99/100 {
		t.Errorf("%d counted, %d refused, of %d: that tries little", counts, refusals, many)
	}
}

// FuzzCredentials tries bytes in place of the parts.
func FuzzCredentials(f *testing.F) {
	f.Add("Bearer "+knownKey, "X_Api_Key", knownKey, "api_key=x; api_key="+knownKey, "api_key[]=x&api_key="+knownKey)
	f.Add("Bearer\t"+knownKey, "X-Api-Key", knownKey, "api_key=\""+knownKey+"\"", "a=b;api_key="+knownKey)
	r := byKeys(f, "bearer", "header:X-API-Key", "cookie:api_key", "query:api_key")
	f.Fuzz(func(t *testing.T, auth, name, value, cookie, query string) {
		facts := fields()
		for _, p := range [][2]string{{"Authorization", auth}, {name, value}, {"Cookie", cookie}} {
			if p[1] != "" && validField(p[0], p[1]) {
				facts.Header.Add(p[0], p[1])
			}
		}
		facts.Query = query
		checkCredentials(t, r, facts)
	})
}

// validField reports whether a server takes the field at all.
func validField(name, value string) bool {
	_, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: h\r\n" + name + ": " + value + "\r\n\r\n")))
	return err == nil && name != "" && !strings.ContainsAny(name+value, "\r\n")
}
