package envoy

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// oddRequests are requests of HTTP/1.1 that one reader or another may stumble over.
func oddRequests() map[string]string {
	with := func(lines ...string) string {
		return "GET /a HTTP/1.1\r\nHost: a\r\n" + strings.Join(append(lines, "", ""), "\r\n")
	}
	to := func(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: a\r\nX-User: u\r\n\r\n" }
	all := map[string]string{
		"plain":           with("X-User: u"),
		"no user":         with(),
		"an empty user":   with("X-User:"),
		"two users":       with("X-User: u", "X-User: v"),
		"long":            with("X-User: " + strings.Repeat("u", 50<<10)),
		"long and binary": with("X-User: " + strings.Repeat("\xfe", 20<<10)),
		"long cookie":     with("Cookie: a=" + strings.Repeat("u", 50<<10)),
		"many fields":     with(strings.Split(strings.TrimSuffix(strings.Repeat("X-A: b\n", 90), "\n"), "\n")...),
		"HTTP/1.0":        "GET /a HTTP/1.0\r\nHost: a\r\nX-User: u\r\n\r\n",
		"absolute":        to("http://b/a"),
		"long path":       to("/" + strings.Repeat("a", 9<<10)),
		"longer path":     to("/" + strings.Repeat("a", 40<<10)),
		"long query":      to("/?" + strings.Repeat("a=b&", 9<<10)),
		"host":            "GET /a HTTP/1.1\r\nHost: a_b:99999\r\nX-User: u\r\n\r\n",
		"no host":         "GET /a HTTP/1.1\r\nX-User: u\r\n\r\n",
		"upgrade":         with("X-User: u", "Connection: Upgrade, X-User", "Upgrade: websocket"),
		"expect":          with("X-User: u", "Expect: 100-continue"),
		"hop by hop":      with("X-User: u", "Connection: x-user, x-forwarded-for"),
		"chunks":          "POST /a HTTP/1.1\r\nHost: a\r\nX-User: u\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"method":          "FOO! /a HTTP/1.1\r\nHost: a\r\nX-User: u\r\n\r\n",
		"asterisk":        "OPTIONS * HTTP/1.1\r\nHost: a\r\nX-User: u\r\n\r\n",
	}
	for _, path := range []string{"//a", "/a//b", "/../a", "/a/..;/b", "/a/%2e%2e/b", "/a%2fb", "/a%5cb", `/a\b`, "/%00", "/%zz", "/%", "/a;b=c", "/a#b", "/caf%c3%a9", "/%ff", "/[a]", "/a?%zz", "/a?a=%ff", "/?", "/a:deny=403", "/auth", "/:fail=open"} {
		all["path "+path] = to(path)
	}
	for _, field := range []string{"X-User", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Method", "X-Original-URI", "X-Request-Id", "Authorization", "Cookie", "Content-Type", "User-Agent", "Accept", "Te", "X-Api-Key", "Traceparent", "X-Envoy-Internal"} {
		for _, value := range []string{"\xff", "caf\xe9 \xed\xa0\x80", "\"", "a, b, \t", "%00%ff", "${x}", strings.Repeat("a,", 2000)} {
			all[fmt.Sprintf("%s %.9q", field, value)] = with("X-User: u", field+": "+value)
		}
	}
	return all
}

// oddTargets are bytes of HTTP/2 that HTTP/1.1 does not carry.
var oddTargets = []string{"/\xff", "/?a=\xff", "/caf\u00e9", "/a\x7f", "/ a", "/\"", "", "a", "*", "/a#b", "http://b/a"}

// No request that reaches the application, of whatever bytes, has passed Weir uncounted,
// though Envoy lets pass what Weir fails at: it has Weir's fields.
func TestNoOddRequestPassesUncounted(t *testing.T) {
	processes(t)
	allow := func(name string) string {
		return strings.Replace(deployed(t, "envoy/"+name+".yaml"), "failure_mode_allow: false", "failure_mode_allow: true", 1)
	}
	limits := func(header string) object { return actions(generic("all", "x"), byHeader(header, "user")) }
	for name, c := range map[string]struct {
		args []string
		conf string
	}{
		"ext_authz over gRPC":      {[]string{"--limit", "1000000/hour by ip", "--ext-authz"}, allow("ext-authz-grpc")},
		"ext_authz, joined fields": {[]string{"--limit", "1000000/hour by ip", "--ext-authz"}, strings.Replace(allow("ext-authz-grpc"), "encode_raw_headers: true", "encode_raw_headers: false", 1)},
		"ext_authz over HTTP":      {[]string{"--limit", "1000000/hour by ip", "--forward-auth", "/auth", "--trusted-proxies", "127.0.0.1"}, allow("ext-authz-http")},
		"rate limits": {[]string{"--rules", writeFile(t, "rules.yaml", "domain: d\ndescriptors:\n  - key: all\n    limit: 1000000/day\n    descriptors:\n      - {key: user, limit: 1000000/day}\n")},
			setup{filters: list{rateLimitFilter("d", object{"rate_limits": list{actions(generic("all", "x")), limits("x-user"), limits(":path"), limits("user-agent"), limits("cookie"), limits("x-request-id")}})}}.bootstrap(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, weir := serveApplication(t), serve(t, c.args...)
			e := startEnvoy(t, c.conf, ports(app.addr, weir))
			through := 0
			check := func(what string, seen bool, h http.Header) {
				t.Helper()
				if app.requests() == nil {
					return
				}
				if through++; !seen || h.Get("X-Ratelimit-Remaining") == "" {
					t.Errorf("%s: the application has it, and Weir has not counted it: %v", what, h)
				}
			}
			for what, text := range oddRequests() {
				res := e.exchange(t, text)
				check(what, res != nil, header2(res))
			}
			for _, target := range oddTargets {
				h := e.exchangeH2(t, target)
				check(fmt.Sprintf("HTTP/2 %q", target), h != nil, h)
			}
			if through < 50 {
				t.Errorf("only %d requests reach the application", through)
			}
		})
	}
}

func header2(res *http.Response) http.Header {
	if res == nil {
		return nil
	}
	return res.Header
}

// exchangeH2 asks for a target over HTTP/2 and returns the fields of the response, nil if
// there is none.
func (p *proxy) exchangeH2(t testing.TB, target string) http.Header {
	t.Helper()
	conn := p.dial(t)
	defer conn.Close()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", target}, {"x-user", "u"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for {
		switch f, err := framer.ReadFrame(); f := f.(type) {
		case *http2.MetaHeadersFrame:
			h := http.Header{}
			for _, field := range f.RegularFields() {
				h.Add(field.Name, field.Value)
			}
			return h
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return nil
		default:
			if err != nil {
				return nil
			}
		}
	}
}
