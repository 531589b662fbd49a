package hostile

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/frontend/forwardauth"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// The keys that are known, and whose they are.
var owners = map[string]string{"ALICEkey0123456789": "alice", "BOBkey9876543210": "bob"}

// sight is what an upstream read of one request.
type sight struct {
	// Target up to where the upstream ends it.
	Target string `json:"target"`
	// Keys is what it takes for the credential, wherever it looks.
	Keys []string `json:"keys"`
	// Account in the path, as one finds it who compares names without case, and
	// what is left out; empty from upstreams that do not look.
	Account string `json:"account"`
	// Seen tells the sight from an answer of somebody else.
	Seen string `json:"seen"`
}

// meaning counts requests at every door, and limits none.
type meaning struct {
	mu      sync.Mutex
	counted []map[string]string // of each request, by key
	limiter *weir.Limiter
	who     *identity.Resolver
	plan    *identity.Plan
	routes  []identity.Route
}

// Match implements weir.Rules.
func (m *meaning) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	one := map[string]string{}
	for _, d := range r.Descriptors {
		for _, e := range d.Entries {
			if has, more := one[e.Key]; more && e.Key == "path" {
				one["path"] = has + " " + e.Value // to who decodes less of it
			} else {
				one[e.Key] = strings.Clone(e.Value)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted = append(m.counted, one)
	return dst
}

// take returns what was counted since the last call.
func (m *meaning) take() []map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counted
	m.counted = nil
	return c
}

// health is the path that nothing is counted of.
const health = "/health"

func newMeaning(t *testing.T) *meaning {
	t.Helper()
	var keys strings.Builder
	for key, user := range owners {
		sum := sha256.Sum256([]byte(key))
		fmt.Fprintf(&keys, "- {sha256: %s, user: %s}\n", hex.EncodeToString(sum[:]), user)
	}
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(keys.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := credentials.LoadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	m := &meaning{}
	m.who, err = identity.New(identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"bearer", "header:X-API-Key", "cookie:api_key", "query:api_key"}}, Keys: file,
		User: []string{"api_key"}, Paths: identity.PathOptions{IgnoreCase: true},
		Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Header: "X-Forwarded-For"},
	})
	if err != nil {
		t.Fatal(err)
	}
	asked := []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "path"}}}, {Entries: []identity.EntryFrom{{From: "user"}}}}
	if m.plan, err = m.who.Plan(asked); err != nil {
		t.Fatal(err)
	}
	m.routes = []identity.Route{
		{Path: "/login/{account}", Descriptors: append(asked[:2:2], identity.Descriptor{Entries: []identity.EntryFrom{{Key: "account", From: "param:account", Fold: true}}})},
		{Descriptors: asked},
	}
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	t.Cleanup(func() { store.Close() })
	if m.limiter, err = weir.New(store, m, weir.Options{}); err != nil {
		t.Fatal(err)
	}
	return m
}

// spelt is a request as it is written.
type spelt struct {
	method, target string
	fields         [][2]string
}

// without returns s without the fields of some names, or names like them.
func (s spelt) without(names ...string) spelt {
	s.fields = slices.DeleteFunc(slices.Clone(s.fields), func(f [2]string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return identity.SameField(n, f[0]) })
	})
	return s
}

// text is the request over HTTP/1.1.
func (s spelt) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: h.example\r\n", s.method, s.target)
	for _, f := range s.fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f[0], f[1])
	}
	return b.String() + "Content-Length: 0\r\nConnection: close\r\n\r\n"
}

// frames is the request over HTTP/2.
func (s spelt) frames() string {
	fields := ""
	for _, f := range append([][2]string{{":method", s.method}, {":scheme", "http"}, {":authority", "h.example"}, {":path", s.target}}, s.fields...) {
		fields += "\x00" + hpackString(strings.ToLower(f[0])) + hpackString(f[1])
	}
	return preface + frame(frameSettings, 0, 0, "") + frame(frameHeaders, endStream|endHeaders, 1, fields)
}

// hpackString is a string of RFC 7541 §5.2.
func hpackString(s string) string {
	n := len(s)
	if n < 127 {
		return string([]byte{byte(n)}) + s
	}
	b := []byte{127}
	for n -= 127; n >= 128; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return string(append(b, byte(n))) + s
}

// send writes a request and returns what of the answer can hold a sight: all of
// it over HTTP/1.1, the frames of data over HTTP/2.
func send(t *testing.T, addr, text string, secure bool) (answer string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	two := strings.HasPrefix(text, preface)
	if secure {
		next := "http/1.1"
		if two {
			next = "h2"
		}
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{next}})
	}
	if _, err := io.WriteString(c, text); err != nil {
		return ""
	}
	if !two {
		answer, _ = closed(c)
		return answer
	}
	r := bufio.NewReader(c)
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return answer
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
		if _, err := io.ReadFull(r, payload); err != nil {
			return answer
		}
		switch head[3] {
		case 0: // data
			answer += string(payload)
		case frameReset, frameGoAway:
			return answer
		}
		if head[3] <= 1 && head[4]&endStream != 0 {
			return answer
		}
	}
}

// sightIn finds a sight in an answer.
func sightIn(answer string) (s sight, ok bool) {
	at := strings.Index(answer, `{"seen":"yes"`)
	if at < 0 {
		return s, false
	}
	return s, json.NewDecoder(strings.NewReader(answer[at:])).Decode(&s) == nil
}

// check fails unless what an upstream saw is what was counted.
func (m *meaning) check(t *testing.T, door string, request spelt, answer string) (reached bool) {
	t.Helper()
	counted := m.take()
	saw, ok := sightIn(answer)
	if !ok {
		return false
	}
	fail := func(why string) {
		t.Helper()
		t.Errorf("%s: %s:\n%q\ncounted %v\nthe upstream saw %+q", door, why, request, counted, saw)
	}
	path, _, _ := strings.Cut(saw.Target, "?")
	if _, rest, ok := strings.Cut(path, "://"); ok && path[0] != '/' {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	if path == "*" {
		path = "/*" // as it is counted
	}
	canon, err := identity.Canonical(path, identity.PathOptions{IgnoreCase: true})
	if err != nil {
		fail(err.Error())
		return true
	}
	if len(counted) == 0 {
		if canon != health && !strings.HasPrefix(canon, health+"/") {
			fail("nothing is counted")
		}
		return true
	}
	if len(counted) > 1 {
		fail("counted more than once")
	}
	one := counted[0]
	if !slices.Contains(strings.Fields(one["path"]), canon) {
		fail("another path is counted")
	}
	read := map[string]bool{}
	for _, key := range saw.Keys {
		if user := owners[key]; user != "" {
			read[user] = true
		}
	}
	switch {
	case len(read) > 1 || len(read) == 1 && !read[one["user"]]:
		fail("another user is counted")
	case len(read) == 0 && one["user"] != "":
		fail("a user is counted whom the upstream does not see")
	}
	if account, ok := one["account"]; ok && saw.Account != "" && account != saw.Account && !strings.HasPrefix(account, "sha256:") {
		fail("another account is counted")
	}
	return true
}

// careless is an upstream that reads as the most careless servers do: the target
// ends at the first space, fields are one whose names fold to one, the last of
// several counts, a credential is whatever stands behind white space.
func careless(target string, fields [][2]string) sight {
	s := sight{Seen: "yes"}
	if i := strings.IndexAny(target, " \t\v\f#"); i >= 0 {
		target = target[:i]
	}
	s.Target = target
	add := func(v string, decode bool) {
		v = strings.Trim(v, " \t\"'")
		if u, err := url.QueryUnescape(v); err == nil && decode && u != v {
			s.Keys = append(s.Keys, strings.Trim(u, " \t\"'\x00"))
		}
		s.Keys = append(s.Keys, v)
	}
	named := func(name string) bool {
		if u, err := url.QueryUnescape(name); err == nil {
			name = u
		}
		if i := strings.IndexAny(name, "[\x00"); i >= 0 {
			name = name[:i]
		}
		name = strings.Map(func(r rune) rune {
			if r == '.' || r == ' ' || r == '-' {
				return '_'
			}
			return r
		}, strings.Trim(name, " \t?\""))
		return strings.EqualFold(name, "api_key")
	}
	for _, f := range fields {
		name := strings.NewReplacer("_", "-", ".", "-", "~", "-").Replace(strings.ToLower(f[0]))
		switch name {
		case "authorization":
			if words := strings.FieldsFunc(f[1], func(r rune) bool { return r <= ' ' || r == ',' || r == 0xa0 || r == ':' }); len(words) > 1 {
				for _, w := range words[1:] {
					add(w, false)
				}
			}
		case "x-api-key":
			for part := range strings.SplitSeq(f[1], ",") {
				add(part, false)
			}
		case "cookie":
			for _, sep := range []string{";", ";,", ";, \t"} {
				for _, pair := range strings.FieldsFunc(f[1], func(r rune) bool { return strings.ContainsRune(sep, r) }) {
					if n, v, _ := strings.Cut(pair, "="); named(n) {
						add(v, true)
					}
				}
			}
		case "x-original-url", "x-rewrite-url": // they are served in its place
			s.Target = f[1]
		}
	}
	_, query, _ := strings.Cut(target, "?")
	for _, sep := range []string{"&", "&;"} {
		for _, pair := range strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune(sep, r) }) {
			if n, v, _ := strings.Cut(pair, "="); named(n) {
				add(v, true)
			}
		}
	}
	return s
}

// carelessUpstream reads HTTP/1.1 by itself.
func carelessUpstream(t *testing.T) string {
	t.Helper()
	ln := servertest.Listen(t)
	serve := func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		_, target, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		var fields [][2]string
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line = strings.TrimRight(line, "\r\n"); line == "" {
				break
			}
			name, value, _ := strings.Cut(line, ":")
			fields = append(fields, [2]string{name, strings.TrimSpace(value)})
		}
		body := sightText(careless(target, fields))
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return ln.Addr().String()
}

// sightText writes a sight, whose seen must come first.
func sightText(s sight) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is text
	}
	return `{"seen":"yes",` + string(b[1:])
}

// goUpstream is net/http.
func goUpstream(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := sight{Seen: "yes", Target: r.RequestURI}
		if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			s.Keys = append(s.Keys, token)
		} else if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "bearer "); ok {
			s.Keys = append(s.Keys, token)
		}
		s.Keys = append(s.Keys, r.Header.Get("X-Api-Key"), r.URL.Query().Get("api_key"))
		if c, err := r.Cookie("api_key"); err == nil {
			s.Keys = append(s.Keys, c.Value)
		}
		io.WriteString(w, sightText(s))
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// nginxUpstream is nginx, by its variables.
func nginxUpstream(t *testing.T) string {
	t.Helper()
	return servertest.NginxServers(t, func(addr string) string {
		return `map $http_authorization $bearer { "~*^bearer (?<token>\S+)$" $token; default ""; }
map $arg_api_key $arg { "~^%(?:41)(?<rest>\w+)$" A$rest; default ""; }
server { listen ` + addr + `; location / { default_type application/json; return 200 '{"seen":"yes","target":"$request_uri","keys":["$http_x_api_key","$cookie_api_key","$arg_api_key","$bearer","$arg"]}'; } }`
	})
}

const nodeScript = `
const http = require('http');
http.createServer((req, res) => {
  const keys = [], h = req.headers;
  const m = /^bearer\s+(\S+)/i.exec(h.authorization || '');
  if (m) keys.push(m[1]);
  if (h['x-api-key']) keys.push(h['x-api-key']);
  const seen = {};
  for (const pair of (h.cookie || '').split(';')) {
    const i = pair.indexOf('=');
    if (i < 0) continue;
    const n = pair.slice(0, i).trim();
    let v = pair.slice(i + 1).trim();
    if (v[0] === '"') v = v.slice(1, -1);
    try { v = decodeURIComponent(v); } catch (e) {}
    if (!(n in seen)) seen[n] = v;
  }
  if (seen.api_key) keys.push(seen.api_key);
  const q = req.url.indexOf('?');
  const all = q < 0 ? [] : new URLSearchParams(req.url.slice(q + 1)).getAll('api_key');
  if (all.length) keys.push(all[all.length - 1]);
  res.end('{"seen":"yes","target":' + JSON.stringify(req.url) + ',"keys":' + JSON.stringify(keys) + '}');
}).listen(+process.argv[1], '127.0.0.1');
`

const pythonScript = `
import http.server, http.cookies, json, sys, unicodedata, urllib.parse
HIDDEN = set('\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u180b\u180c\u180d\u180f') | {chr(c) for c in range(0xfe00, 0xfe10)} | {chr(c) for c in range(0xe0000, 0xe1000)}
def fold(name):
    for _ in range(4):
        name = ''.join(c for c in name if unicodedata.category(c) != 'Cf' and c not in HIDDEN)
        name = unicodedata.normalize('NFKC', unicodedata.normalize('NFKC', name).casefold())
    return name.strip()
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        keys, env = [], {}
        for name, value in self.headers.items():
            env[name.upper().replace('-', '_')] = value
        words = self.headers.get('Authorization', '').split()
        if len(words) > 1 and words[0].lower() == 'bearer':
            keys.append(words[1])
        keys.append(env.get('X_API_KEY', ''))
        try:
            cookies = http.cookies.SimpleCookie(self.headers.get('Cookie', ''))
            if 'api_key' in cookies:
                keys.append(cookies['api_key'].value)
        except http.cookies.CookieError:
            pass
        target = self.path
        path, _, query = target.partition('?')
        keys += urllib.parse.parse_qs(query).get('api_key', [])[-1:]
        keys += urllib.parse.parse_qs(query, separator=';').get('api_key', [])[-1:]
        account = ''
        parts = path.split('/')
        if len(parts) == 3 and parts[1] == 'login' and ';' not in path:
            account = fold(urllib.parse.unquote(parts[2]))
            if '/' in account or '\\' in account: # another path, to who decodes before
                account = ''
        body = ('{"seen":"yes","target":%s,"keys":%s,"account":%s}' % (json.dumps(target), json.dumps(keys), json.dumps(account))).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = do_HEAD = do_PUT = answer
    def log_message(self, *args):
        pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
Server(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
`

// scriptUpstream runs a script that listens on the port of its argument.
func scriptUpstream(t *testing.T, command, script string) string {
	t.Helper()
	bin := servertest.Binary(t, command)
	flag := map[string]string{"node": "-e", "python3": "-c"}[command]
	for range 3 { // a port that was free may be taken
		port := fmt.Sprint(servertest.FreePort(t))
		addr := "127.0.0.1:" + port
		p := servertest.Start(t, exec.Command(bin, flag, script, port))
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			if _, ok := sightIn(send2(addr, spelt{method: "GET", target: "/"}.text())); ok {
				return addr
			}
			if p.Output() != "" {
				t.Log(p.Output())
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	t.Fatalf("%s does not answer", command)
	return ""
}

// send2 is send to who may not listen yet.
func send2(addr, text string) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return ""
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(time.Minute)) != nil {
		return ""
	}
	if _, err := io.WriteString(c, text); err != nil {
		return ""
	}
	answer, _ := closed(c)
	return answer
}

// door is one way through Weir to one upstream.
type door struct {
	name string
	m    *meaning
	// ask sends a request through it and returns the answer.
	ask func(t *testing.T, s spelt) string
}

// listenBoth starts a server of HTTP/1.1 and HTTP/2, in plain text and over TLS.
func listenBoth(t *testing.T, h http.Handler) (plain, secure string) {
	t.Helper()
	for _, over := range []*string{&plain, &secure} {
		srv := httptest.NewUnstartedServer(h)
		srv.Config.Protocols = new(http.Protocols)
		srv.Config.Protocols.SetHTTP1(true)
		srv.Config.Protocols.SetHTTP2(true)
		srv.Config.Protocols.SetUnencryptedHTTP2(true)
		srv.Config.DisableGeneralOptionsHandler = true
		srv.EnableHTTP2 = true
		if over == &plain {
			srv.Start()
		} else {
			srv.StartTLS()
		}
		t.Cleanup(srv.Close)
		*over = srv.Listener.Addr().String()
	}
	return plain, secure
}

// overHTTP are the doors to a handler.
func overHTTP(t *testing.T, name string, m *meaning, h http.Handler) []door {
	t.Helper()
	plain, secure := listenBoth(t, h)
	return []door{
		{name + " over HTTP/1.1", m, func(t *testing.T, s spelt) string { return send(t, plain, s.text(), false) }},
		{name + " over h2c", m, func(t *testing.T, s spelt) string { return send(t, plain, s.frames(), false) }},
		{name + " over TLS, HTTP/2", m, func(t *testing.T, s spelt) string { return send(t, secure, s.frames(), true) }},
		{name + " over TLS, HTTP/1.1", m, func(t *testing.T, s spelt) string { return send(t, secure, s.text(), true) }},
	}
}

// doorsTo opens every door to an upstream.
func doorsTo(t *testing.T, name, upstream string) (all []door) {
	t.Helper()
	m := newMeaning(t)
	routes := []gateway.Route{{Route: identity.Route{Path: health + "/*", Unlimited: true}}}
	asked := []identity.Route{{Path: health + "/*", Unlimited: true}}
	for _, r := range m.routes {
		routes, asked = append(routes, gateway.Route{Route: r}), append(asked, r)
	}
	to := gateway.Forward{Upstream: &url.URL{Scheme: "http", Host: upstream}, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	g, err := gateway.New(gateway.Options{Limits: httplimit.Options{Limiter: m.limiter, Identity: m.who, Plan: m.plan}, Default: to, Routes: routes})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, overHTTP(t, "gateway to "+name, m, g)...)

	options := authorize.Options{Limiter: m.limiter, Identity: m.who, Plan: m.plan, Routes: asked}
	fa, err := forwardauth.New(forwardauth.Options{Authorize: options, ClientHeader: "X-Forwarded-For"})
	if err != nil {
		t.Fatal(err)
	}
	limiter := httptest.NewServer(fa)
	t.Cleanup(limiter.Close)
	conf, err := os.ReadFile("../../deploy/nginx/weir-fail-closed.conf")
	if err != nil {
		t.Fatal(err)
	}
	proxy := servertest.NginxServers(t, func(addr string) string {
		return strings.NewReplacer("server 127.0.0.1:8080;", "server "+limiter.Listener.Addr().String()+";", "server 127.0.0.1:3000;", "server "+upstream+";",
			"listen 80;", "listen "+addr+";\n    underscores_in_headers on;\n    ignore_invalid_headers off;", "200ms", "20s", "500ms", "20s").Replace(string(conf))
	})
	all = append(all, door{"nginx that asks, to " + name, m, func(t *testing.T, s spelt) string { return send(t, proxy, s.text(), false) }})

	ext, err := extauthz.New(extauthz.Options{Authorize: options})
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []bool{false, true} {
		all = append(all, door{fmt.Sprintf("ext_authz (raw %v), to %s", raw, name), m, func(t *testing.T, s spelt) string {
			in := &authv3.AttributeContext_HttpRequest{Method: s.method, Path: s.target, Host: "h.example", Headers: map[string]string{}}
			for _, f := range s.fields {
				key, value := strings.ToLower(f[0]), f[1]
				if raw {
					in.HeaderMap = headerMap(in.HeaderMap, key, value)
				} else if was, ok := in.Headers[key]; ok {
					in.Headers[key] = was + "," + value
				} else {
					in.Headers[key] = value
				}
			}
			res, err := ext.Check(context.Background(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
					SocketAddress: &corev3.SocketAddress{Address: "192.0.2.1"}}}},
				Request: &authv3.AttributeContext_Request{Http: in}}})
			if err != nil || res.GetOkResponse() == nil {
				return ""
			}
			return send(t, upstream, s.text(), false)
		}})
	}
	return all
}

// headerMap adds a field to those that Envoy sends with encode_raw_headers.
func headerMap(m *corev3.HeaderMap, key, value string) *corev3.HeaderMap {
	if m == nil {
		m = &corev3.HeaderMap{}
	}
	m.Headers = append(m.Headers, &corev3.HeaderValue{Key: key, RawValue: []byte(value)})
	return m
}

// middlewareDoors are the doors of an application with the middleware in it, which
// reads carelessly.
func middlewareDoors(t *testing.T) []door {
	t.Helper()
	m := newMeaning(t)
	mw, err := httplimit.New(httplimit.Options{Limiter: m.limiter, Identity: m.who, Plan: m.plan})
	if err != nil {
		t.Fatal(err)
	}
	return overHTTP(t, "middleware", m, mw.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var fields [][2]string
		for name, lines := range r.Header {
			for _, v := range lines {
				fields = append(fields, [2]string{name, v})
			}
		}
		io.WriteString(w, sightText(careless(r.RequestURI, fields)))
	})))
}

// known are spellings that were tried on this project and others, with what a
// reader may make of each.
func known() (all []spelt) {
	const a = "ALICEkey0123456789"
	for _, target := range []string{
		"/login/victim HTTP/1.1", "/login/victim HTTP/1.1/../../../health", "/login/victim x HTTP/1.1", "/login/victim /../../health", "/health/../login/victim", "/health/%2e%2e/login/victim", "/health/..%2flogin/victim",
		"/health/..;/login/victim", "/health#/../login/victim", "/login/victim#/../../health", "/login/victim\t", "/login/victim?a b", "/items?api_key=" + a + " HTTP/1.1", "/items?api_key=" + a + "#x", "/caf\xc3\xa9", "/items?\xff",
		"http://other.example/login/victim", "http://u@other.example/health/", "//other.example/login/victim", "/login//victim", "/LOGIN/VICTIM", "/login/victim%20", "/login/vic%E2%80%8Btim", "/login/%EF%BD%96ictim", "/login/VIC%C2%ADTIM",
		"/login/victim%00", "/login/victim%2e", "/login/victim;x", "*", "login/victim", "/login/%2576ictim", "/health/%252e%252e/login", "/login\\victim", "/items?api_key=" + a, "/items?api_key=%41LICEkey0123456789",
		"/items?api_key=x&api_key=" + a, "/items?api_key=" + a + "&api_key=x", "/items?x;api_key=" + a, "/items?api_key[]=" + a, "/items?%61pi_key=" + a, "/items?API_KEY=" + a, "/items?api.key=" + a, "/items?api_key=+" + a, "/items?api_key=" + a + "%00",
	} {
		all = append(all, spelt{"GET", target, nil})
	}
	for _, fields := range [][][2]string{
		{{"Authorization", "Bearer " + a}}, {{"Authorization", "Bearer\t" + a}}, {{"Authorization", "Bearer  " + a}}, {{"Authorization", "Bearer " + a}, {"Authorization", "Bearer x"}}, {{"Authorization", "Bearer x"}, {"Authorization", "Bearer " + a}},
		{{"Authorization", "Bearer x, Bearer " + a}}, {{"Authorization", "Basic eDp5"}}, {{"Authorization", "Basic eDp5"}, {"X-Api-Key", a}}, {{"Authorization", "Token " + a}}, {{"Authorization", "Bearer \"" + a + "\""}},
		{{"X-Api-Key", a}}, {{"X_Api_Key", a}}, {{"x.api.key", a}}, {{"X-Api-Key", "x"}, {"X-Api-Key", a}}, {{"X-Api-Key", a}, {"X-Api-Key", "x"}}, {{"X-Api-Key", "x, " + a}}, {{"X-Api-Key", "x"}, {"X_Api_Key", a}},
		{{"Cookie", "api_key=" + a}}, {{"Cookie", "api_key=x; api_key=" + a}}, {{"Cookie", "api_key=x"}, {"Cookie", "api_key=" + a}}, {{"Cookie", "a=b, api_key=" + a}}, {{"Cookie", "a=b api_key=" + a}}, {{"Cookie", "api_key=\"" + a + "\""}},
		{{"Cookie", "API_KEY=" + a}}, {{"Cookie", "api_key=%41LICEkey0123456789"}}, {{"Cookie", "a=\"; api_key=" + a + "; b=\""}}, {{"Cookie", "api_key =" + a}}, {{"Cookie", "=api_key=" + a}},
		{{"X-Api-Key", a}, {"Authorization", "Bearer BOBkey9876543210"}}, {{"X-Api-Key", "x"}, {"Cookie", "api_key=" + a}}, {{"Connection", "X-Api-Key"}, {"X-Api-Key", a}},
		{{"X-Original-URL", "/health/x"}}, {{"X_Original_URL", "/health/x"}}, {{"X-Rewrite-Url", "/items/2"}},
	} {
		all = append(all, spelt{"POST", "/items", fields})
	}
	return all
}

// anyOf makes a request out of parts.
func anyOf(rnd *rand.Rand) spelt {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	key := func() string {
		return pick("ALICEkey0123456789", "ALICEkey0123456789", "BOBkey9876543210", "%41LICEkey0123456789", "junk", "", "\"ALICEkey0123456789\"")
	}
	s := spelt{method: pick("GET", "POST", "GET", "PUT", "get"), target: pick("/items", "/items/1", "/login/victim", "/health", "/health/x", "/login/"+pick("victim", "VICTIM", "vic%E2%80%8Btim", "%EF%BC%B6ictim", "victim%20", "%E2%85%A7", "stra%C3%9Fe", "e%CC%81", "%C7%86"))}
	for range rnd.IntN(3) {
		s.target += pick(" HTTP/1.1", " ", "\t", "#x", "/../health", "/..", "/.", "//x", ";a=b", "%2f..%2fhealth", "%2e%2e", "\\..\\health", "\xc3\xa9", "%C3%A9", "\"", "|", "[", "%00", "%ff", "/health", "%20")
	}
	if rnd.IntN(2) == 0 {
		s.target += "?" + pick("", "a=b&", "a=b;", "&", "api_key=x&") + pick("api_key", "api_key", "api_key", "API_KEY", "api.key", "%61pi_key", "api_key[]", "api_key%00", " api_key", "+api_key") + pick("=", "=", "= ", "=+", "==") + key() + pick("", "", "&c=d", ";c=d", "&api_key="+key(), " HTTP/1.1", "#")
	}
	for range rnd.IntN(3) {
		switch rnd.IntN(5) {
		case 0:
			s.fields = append(s.fields, [2]string{pick("Authorization", "authorization"), pick("Bearer ", "bearer ", "Bearer\t", "Bearer  ", "Basic ", "Token ", "", "x, Bearer ", "Bearer:") + key() + pick("", "", " ", ",", ", Bearer "+key())})
		case 1:
			s.fields = append(s.fields, [2]string{pick("X-Api-Key", "X-API-KEY", "X_Api_Key", "X-Api_Key", "X.Api.Key"), pick("", "", "x,", " ") + key() + pick("", "", ",x", " x")})
		case 2:
			s.fields = append(s.fields, [2]string{"Cookie", pick("", "a=b; ", "a=b, ", "a=b ", "a=\"", "; ", "=") + pick("api_key", "api_key", "Api_Key", "api.key", "api_key ", "%61pi_key") + "=" + key() + pick("", "; c=d", ", c=d", "\"", "; api_key="+key())})
		case 3:
			s.fields = append(s.fields, [2]string{pick("X-Original-URL", "X-Rewrite-URL", "X_Original_Url", "X-HTTP-Method-Override", "X-Forwarded-Uri", "X-Forwarded-For"), pick("/health/x", "PUT", "203.0.113.7")})
		default:
			s.fields = append(s.fields, [2]string{"X-Other", pick("a", "a, b", "\xe9", "\"")})
		}
	}
	return s
}

// TestFamilyOneRequestOneMeaning: whatever a request looks like, and through
// whichever door it comes, the upstream reads the path, the user and the account
// that were counted, or does not get it.
func TestFamilyOneRequestOneMeaning(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(seeds.Of(t), 3))
	requests := known()
	for range n(60, 3_000) {
		requests = append(requests, anyOf(rnd))
	}
	var doors []door
	for name, start := range map[string]func(*testing.T) string{
		"a careless server": carelessUpstream, "net/http": goUpstream, "nginx": nginxUpstream,
		"Node":   func(t *testing.T) string { return scriptUpstream(t, "node", nodeScript) },
		"Python": func(t *testing.T) string { return scriptUpstream(t, "python3", pythonScript) },
	} {
		doors = append(doors, doorsTo(t, name, start(t))...)
	}
	doors = append(doors, middlewareDoors(t)...)
	byUpstream := map[*meaning][]door{}
	for _, d := range doors {
		byUpstream[d.m] = append(byUpstream[d.m], d)
	}
	var wg sync.WaitGroup
	for _, ds := range byUpstream {
		wg.Go(func() {
			for _, d := range ds {
				reached := 0
				for i, s := range requests {
					if strings.Contains(d.name, "2") && slices.ContainsFunc(s.fields, func(f [2]string) bool { return f[0] == "Connection" }) {
						continue // HTTP/2 has none
					}
					if !strings.HasPrefix(d.name, "gateway") {
						s = s.without("x-original-url", "x-rewrite-url") // only the gateway can drop them
					}
					if d.m.check(t, fmt.Sprintf("request %d, %s", i, d.name), s, d.ask(t, s)) {
						reached++
					}
				}
				if reached < len(requests)/10 {
					t.Errorf("%s: %d of %d requests reached the upstream: that tries little", d.name, reached, len(requests))
				}
			}
		})
	}
	wg.Wait()
}
