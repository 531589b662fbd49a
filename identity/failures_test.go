package identity_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// failuresOf returns what was counted, without what has not occurred.
func failuresOf(r *identity.Resolver) map[string]uint64 {
	all := map[string]uint64{}
	for _, f := range r.Failures() {
		if f.Count > 0 {
			all[f.Kind+" "+f.Reason] = f.Count
		}
	}
	return all
}

// TestPathsAreCounted: a path that is refused is counted once, by why, and one that nobody
// reads is not.
func TestPathsAreCounted(t *testing.T) {
	for path, want := range map[string]string{"/a/..;/b": "path dot_segment", "//a": "path two_slashes_first", `/a\b`: "path backslash", "/a;b": "path parameters", "/a%2fb": "path encoded_slash",
		"/a//b": "path empty_segments", "/%ff": "path unreadable", "/a%2fb;c": "path parameters", "/a/": ""} {
		r := identitytest.New(t, identity.Options{})
		c := r.Acquire()
		c.Set(identity.Facts{Path: path})
		if c.Facts().Path(); len(failuresOf(r)) != 0 {
			t.Errorf("%s: counted without being refused", path)
		}
		c.Release()
		identify(r, identity.Facts{Path: path})
		if got := failuresOf(r); want == "" && len(got) != 0 || want != "" && (len(got) != 1 || got[want] != 1) {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// identify asks all that a request can be known by.
func identify(r *identity.Resolver, f identity.Facts) {
	c := r.Acquire()
	defer c.Release()
	f.Peer = netip.MustParseAddr("192.0.2.1")
	c.Set(f)
	for range 2 { // found out once
		c.User()
		c.Tier()
		c.APIKey()
		c.Address()
		_ = c.Err()
	}
}

// TestFamilyIdentityFailures: a credential that is not believed is counted by why, and
// logged without itself; one that is believed, and none, are not.
func TestFamilyIdentityFailures(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	hs := func(payload string) string { return identitytest.Sign(t, jose.HS256, []byte(secret), "", payload) }
	set := identitytest.JWKS(jose.JSONWebKey{Key: identitytest.RSAKey().Public(), KeyID: "one", Algorithm: "RS256"}, jose.JSONWebKey{Key: identitytest.ECKey().Public(), KeyID: "two"})
	options := func(change func(*identity.Options, *credentials.JWTOptions)) identity.Options {
		o := identity.Options{
			User: []string{"jwt:sub", "api_key"}, Tier: []string{"jwt:tier", "keys"},
			APIKey: identity.APIKeyOptions{From: []string{"header:X-Api-Key"}, Secret: identity.Secret(secret)},
			Keys:   identitytest.Keys(t, "keys.yaml", fmt.Sprintf("- {sha256: %s, user: bob, tier: gold}", identitytest.Digest("demo-key-of-0123"))),
		}
		jwt := credentials.JWTOptions{Issuers: []string{"https://issuer.example"}, Audiences: []string{"weir"}, Now: identitytest.Fixed}
		if jwt.Secret = identity.Secret(secret); change != nil {
			change(&o, &jwt)
		}
		o.Token = identitytest.Tokens(t, jwt)
		return o
	}
	public := func(_ *identity.Options, jwt *credentials.JWTOptions) {
		jwt.Secret, jwt.KeyFile = nil, identitytest.Write(t, "set.json", set)
	}
	bearerKeys := func(o *identity.Options, _ *credentials.JWTOptions) { o.APIKey.From = []string{"bearer"} }
	claims := func(old, new string) string { return strings.Replace(identitytest.Good, old, new, 1) }
	withBearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	for name, c := range map[string]struct {
		header http.Header
		want   string // empty for none
		change func(*identity.Options, *credentials.JWTOptions)
	}{
		"nothing":               {http.Header{}, "", nil},
		"a good token":          {withBearer(hs(identitytest.Good)), "", nil},
		"a good key":            {http.Header{"X-Api-Key": {"demo-key-of-0123"}}, "", nil},
		"expired":               {withBearer(hs(claims("1800000100", "1700000000"))), "jwt expired", nil},
		"not yet valid":         {withBearer(hs(claims("1799999900", "1800005000"))), "jwt not_yet_valid", nil},
		"issued in the future":  {withBearer(hs(claims(`"n"`, `"iat":1800005000,"n"`))), "jwt issued_in_future", nil},
		"no expiry":             {withBearer(hs(claims(`"exp":1800000100,`, ""))), "jwt no_expiry", nil},
		"wrong issuer":          {withBearer(hs(claims("issuer.example", "other.example"))), "jwt wrong_issuer", nil},
		"no issuer":             {withBearer(hs(claims(`"iss":"https://issuer.example",`, ""))), "jwt wrong_issuer", nil},
		"wrong audience":        {withBearer(hs(claims(`"weir",`, ""))), "jwt wrong_audience", nil},
		"no audience":           {withBearer(hs(claims(`"aud":["weir","other"],`, ""))), "jwt wrong_audience", nil},
		"bad signature":         {withBearer(identitytest.Sign(t, jose.HS256, []byte(strings.Repeat("x", 32)), "", identitytest.Good)), "jwt bad_signature", nil},
		"bad RSA signature":     {withBearer(identitytest.Sign(t, jose.RS256, identitytest.OtherKey(), "one", identitytest.Good)), "jwt bad_signature", public},
		"unknown key":           {withBearer(identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "three", identitytest.Good)), "jwt unknown_key", public},
		"unknown kind of key":   {withBearer(identitytest.Sign(t, jose.ES256, identitytest.ECKey(), "one", identitytest.Good)), "jwt unknown_key", public},
		"another algorithm":     {withBearer(identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "", identitytest.Good)), "jwt algorithm", nil},
		"none":                  {withBearer(identitytest.Raw(`{"alg":"none"}`, identitytest.Good, "")), "jwt algorithm", nil},
		"no JSON":               {withBearer(identitytest.Raw(`x`, identitytest.Good, "s")), "jwt malformed", nil},
		"claims that are none":  {withBearer(hs(`[]`)), "jwt malformed", nil},
		"opaque":                {withBearer("opaque"), "jwt malformed", nil},
		"too long":              {withBearer(hs(claims(`"n"`, `"x":"`+strings.Repeat("y", 9000)+`","n"`))), "jwt too_long", nil},
		"no user":               {withBearer(hs(claims(`"sub":"alice",`, ""))), "jwt no_user", nil},
		"a user that is a list": {withBearer(hs(claims(`"alice"`, `["alice"]`))), "jwt no_user", nil},
		"unknown API key":       {http.Header{"X-Api-Key": {"unknown-but-secret"}}, "api_key unknown", nil},
		"long API key":          {http.Header{"X-Api-Key": {strings.Repeat("k", 513)}}, "api_key too_long", nil},
		"two keys":              {http.Header{"X-Api-Key": {"demo-key-of-0123", "other"}}, "credential unclear", nil},
		"two tokens":            {http.Header{"Authorization": {"Bearer " + hs(identitytest.Good), "Bearer x"}}, "credential unclear", nil},
		"a tab":                 {http.Header{"Authorization": {"Bearer\t" + hs(identitytest.Good)}}, "credential unclear", nil},
		"a look-alike":          {http.Header{"X_api_key": {"demo-key-of-0123"}}, "credential unclear", nil},
		// Keys and tokens in one place: what is one is not a broken other.
		"a key as bearer":           {withBearer("demo-key-of-0123"), "", bearerKeys},
		"a token as bearer":         {withBearer(hs(identitytest.Good)), "", bearerKeys},
		"an unknown key as bearer":  {withBearer("no-such-key"), "api_key unknown", bearerKeys},
		"a broken token as bearer":  {withBearer(identitytest.Sign(t, jose.HS256, []byte(strings.Repeat("x", 32)), "", identitytest.Good)), "jwt bad_signature", bearerKeys},
		"a key beside a good token": {http.Header{"Authorization": {"Bearer " + hs(identitytest.Good)}, "X-Api-Key": {"demo-key-of-0123"}}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o := options(c.change)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			r := identitytest.New(t, o)
			identify(r, identity.Facts{Method: "GET", Path: "/", Header: c.header})
			want := map[string]uint64{}
			if c.want != "" {
				want[c.want] = 1
			}
			if got := failuresOf(r); !maps.Equal(got, want) {
				t.Errorf("counted %v, want %v", got, want)
			}
			if (log.Len() > 0) != (c.want != "") {
				t.Errorf("logged %s", log.String())
			}
			for _, lines := range c.header {
				for _, line := range lines {
					_, credential, _ := strings.Cut(line, " ")
					for _, part := range append(strings.Split(credential, "."), line, credential) {
						if len(part) > 3 && strings.Contains(log.String(), part) {
							t.Errorf("%q is in the log: %s", part, log.String())
						}
					}
				}
			}
		})
	}
	// At most a line a second, and none of the counts is lost.
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := options(nil)
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		r := identitytest.New(t, o)
		for range 30 {
			for range 10 {
				identify(r, identity.Facts{Method: "GET", Path: "/", Header: http.Header{"X-Api-Key": {"unknown"}}})
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := strings.Count(log.String(), "\n"); n < 3 || n > 4 {
			t.Errorf("%d lines in three seconds", n)
		}
		if got := failuresOf(r)["api_key unknown"]; got != 300 {
			t.Errorf("%d counted, want 300", got)
		}
	})
}

// No warning names a client in a flag that would let it name another.
func TestFamilyNoAdviceNamesAClient(t *testing.T) {
	f := func(carried bool, peer, field, value string, counted uint64, flag string) {
		t.Helper()
		var log bytes.Buffer
		r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: prefixes("192.0.2.0/24"), Header: "X-Forwarded-For"},
			User: []string{"header:X-User"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		c := r.Acquire()
		defer c.Release()
		c.Set(identity.Facts{Peer: netip.MustParseAddr(peer), Method: "GET", Path: "/", Header: http.Header{field: {value}}, Carried: carried})
		c.Address()
		c.User()
		n := uint64(0)
		for _, of := range r.UntrustedFields() {
			n += of.Requests
		}
		if n != counted || strings.Contains(log.String(), "flag=") != (counted > 0) || !strings.Contains(log.String(), flag) {
			t.Errorf("%s: %s from %s, carried %v: counted %d times, want %d with %q:\n%s", field, value, peer, carried, n, counted, flag, log.String())
		}
	}
	const nobody = `"--trusted-proxies ADDRESS-OF-YOUR-PROXY`
	for _, peer := range []string{"203.0.113.7", "10.1.2.3", "127.0.0.1", "2001:db8::7", "::ffff:10.1.2.3"} {
		// What Envoy adds to every request is no sign of a proxy.
		f(true, peer, "X-Forwarded-For", peer, 0, "")
		f(true, peer, "X-Forwarded-Proto", "https", 0, "")
		f(true, peer, "X-Real-Ip", " "+peer, 0, "")
		// What a client adds to it is one to look at, and does not get the client named.
		for _, field := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-User", "X-Forwarded-Host"} {
			f(true, peer, field, "198.51.100.1, "+peer, 1, nobody)
			if peer != "127.0.0.1" { // to which Envoy adds its own address
				f(true, peer, field, "198.51.100.1", 1, nobody)
			}
		}
	}
	// Of peers themselves those of a network of one's own are named alone.
	f(false, "10.1.2.3", "X-Forwarded-For", "198.51.100.1", 1, `"--trusted-proxies 10.1.2.3"`)
	f(false, "fd00::1", "X-Forwarded-Proto", "https", 1, `"--trusted-proxies fd00::1"`)
	f(false, "127.0.0.1", "X-Forwarded-For", "127.0.0.1", 1, `"--trusted-proxies 127.0.0.1"`)
	f(false, "203.0.113.7", "X-Forwarded-For", "198.51.100.1", 1, nobody)
	f(false, "2001:db8::7", "Forwarded", "for=198.51.100.1", 1, nobody)
}

// TestFamilyUntrustedForwarding: a field by which a peer that is not trusted names
// another client, or what it asked for, is counted each time, and logged once for each
// network of peers, with the flag to set. What trusted proxies say is not.
func TestFamilyUntrustedForwarding(t *testing.T) {
	var log bytes.Buffer
	text := slog.New(slog.NewTextHandler(&log, nil))
	r := identitytest.New(t, identity.Options{
		Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: "X-Forwarded-For"}, User: []string{"header:X-User"}, Log: text,
	})
	ask := func(peer netip.Addr, fields ...string) {
		h := http.Header{"User-Agent": {"x"}}
		for _, f := range fields {
			h.Set(f, "203.0.113.9")
		}
		c := r.Acquire()
		defer c.Release()
		c.Set(identity.Facts{Peer: peer, Method: "GET", Path: "/", Header: h})
		c.Address()
		c.User()
		_ = c.Err()
	}
	counted := func() map[string]uint64 {
		all := map[string]uint64{}
		for _, f := range r.UntrustedFields() {
			if f.Requests > 0 {
				all[f.Field] = f.Requests
			}
		}
		return all
	}
	is := func(lines int, want map[string]uint64) {
		t.Helper()
		if n := strings.Count(log.String(), "\n"); n != lines {
			t.Errorf("%d lines, want %d:\n%s", n, lines, log.String())
		}
		if got := counted(); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	}
	want := map[string]uint64{}
	ask(netip.MustParseAddr("10.1.2.3"), "X-Forwarded-For", "X-User", "Forwarded")
	ask(netip.MustParseAddr("192.0.2.1"))
	is(0, want)
	for i, c := range []struct{ field, flag string }{
		{"X-Forwarded-For", `"--trusted-proxies 172.16.0.7"`}, {"Forwarded", `"--trusted-proxies 172.16.1.7 --client-ip-header Forwarded"`},
		{"X-Real-Ip", `"--trusted-proxies 172.16.2.7 --client-ip-header X-Real-Ip"`}, {"Cf-Connecting-Ip", `"--trusted-proxies 172.16.3.7 --client-ip-header Cf-Connecting-Ip"`},
		{"True-Client-Ip", `"--trusted-proxies 172.16.4.7 --client-ip-header True-Client-Ip"`}, {"X-Client-Ip", `"--trusted-proxies 172.16.5.7 --client-ip-header X-Client-Ip"`},
		{"X-Cluster-Client-Ip", `"--trusted-proxies 172.16.6.7 --client-ip-header X-Cluster-Client-Ip"`}, {"Fastly-Client-Ip", `"--trusted-proxies 172.16.7.7 --client-ip-header Fastly-Client-Ip"`},
		{"X-Forwarded-Host", `"--trusted-proxies 172.16.8.7"`}, {"X-Forwarded-Proto", `"--trusted-proxies 172.16.9.7"`}, {"X-User", `"--trusted-proxies 172.16.10.7"`},
	} {
		log.Reset()
		for n := range 3 { // of one network
			ask(netip.AddrFrom4([4]byte{172, 16, byte(i), byte(7 + n)}), c.field)
			ask(netip.AddrFrom16(netip.AddrFrom4([4]byte{172, 16, byte(i), 200}).As16()), c.field)
		}
		want[c.field] = 6
		is(1, want)
		if !strings.Contains(log.String(), "flag="+c.flag) || !strings.Contains(log.String(), "field="+c.field+" ") {
			t.Errorf("%s: want the flag %s in %s", c.field, c.flag, log.String())
		}
	}
	log.Reset()
	for n := range 3 {
		ask(netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", n+1)), "X-Forwarded-For", "Forwarded")
		ask(netip.Addr{}, "X-Forwarded-For") // a Unix socket
	}
	want["X-Forwarded-For"] += 6
	want["Forwarded"] += 3
	is(2, want)
	if !strings.Contains(log.String(), "flag=--trusted-unix") {
		t.Errorf("no flag for a Unix socket: %s", log.String())
	}
	// However many networks: as many lines as are remembered.
	for i := range 1000 {
		ask(netip.AddrFrom4([4]byte{198, byte(i >> 8), byte(i), 1}), "X-Forwarded-For")
	}
	want["X-Forwarded-For"] += 1000
	is(32-11, want)
	if strings.Count(log.String(), "no longer logged") != 1 {
		t.Errorf("it is not said that no more is logged: %s", log.String())
	}
}

// TestFailuresCostNothingToOthers: whoever says nothing that is not believed makes
// nothing be allocated.
func TestFailuresCostNothingToOthers(t *testing.T) {
	r := identitytest.New(t, identity.Options{Log: slog.New(slog.DiscardHandler)})
	f := identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Method: "GET", Host: "h", Path: "/", Header: http.Header{"User-Agent": {"x"}, "Accept": {"*/*"}}}
	said := identity.Facts{Peer: f.Peer, Method: "GET", Host: "h", Path: "/", Header: http.Header{"X-Forwarded-For": {"x"}}}
	for _, f := range []identity.Facts{f, said} {
		if n := testing.AllocsPerRun(200, func() {
			c := r.Acquire()
			c.Set(f)
			c.Address()
			_ = c.Check()
			c.Release()
		}); n != 0 {
			t.Errorf("%v: %v allocations", f.Header, n)
		}
	}
}
