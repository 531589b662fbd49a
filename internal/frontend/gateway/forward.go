package gateway

import (
	"cmp"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"

	"github.com/weirlimit/weir/identity"
)

// rewrite makes the request to the upstream.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	tr := tripOf(p.In)
	u := p.Out.URL
	u.Scheme, u.Host = tr.t.scheme, tr.t.Upstream.Host
	setPath(u, tr.t.base+tr.t.upstreamPath(tr.caller))
	// As it came: nothing here changes the query, so no two readers can differ.
	u.RawQuery = p.In.URL.RawQuery
	if !tr.t.PreserveHost {
		p.Out.Host = ""
	}
	if speaksHTTP(p.Out.Header["Upgrade"]) || !p.In.ProtoAtLeast(1, 1) { // RFC 9110 §7.8
		for _, key := range []string{"Connection", "Upgrade", "Http2-Settings"} {
			p.Out.Header.Del(key)
		}
	}
	g.dropClaims(p.Out.Header, tr.caller.Trusted())
	if override := g.identity.MethodOverride(); override != "" && p.In.Method != http.MethodPost {
		delete(p.Out.Header, override) // it means nothing there, see identity.Options
	}
	// A server that merges trailers would find another request.
	tr.caller.DropTrailers(p.Out.Trailer, func(key string) bool { return g.isClaim(key, false) || !mayTrail(key) })
	if len(p.Out.Trailer) > 0 && p.Out.Body != nil {
		p.Out.Body = &trailed{ReadCloser: p.Out.Body, from: p.In.Trailer, to: p.Out.Trailer}
	}
	g.setForwarded(p, tr.caller)
}

// upstreamPath returns the path for the upstream, beginning with a slash: as the client wrote
// it, without the segments of the prefix if it has them. Where a prefix is cut or put
// before it, the path was read, and leads nowhere else.
func (t *target) upstreamPath(c *identity.Caller) string {
	sent := c.SentPath()
	if t.prefix == "" {
		return sent
	}
	canon, err := c.Path()
	if rest, ok := strings.CutPrefix(canon, t.prefix); err != nil || !ok || rest != "" && rest[0] != '/' {
		return sent
	}
	for n := strings.Count(t.prefix, "/"); n > 0; {
		segment, _, _ := strings.Cut(sent[1:], "/")
		if segment != "" && segment[0] != ';' { // else it counts as empty
			n--
		}
		sent = sent[1+len(segment):]
	}
	return cmp.Or(sent, "/")
}

// speaksHTTP reports whether an Upgrade field asks for another version of HTTP,
// or for TLS with any protocol in it. On such a connection an upstream would
// answer requests that nobody has limited: "h2c smuggling". A client may not be
// granted what it asks for, RFC 9110 §7.8, so it is not asked for.
func speaksHTTP(lines []string) bool {
	for _, line := range lines {
		for protocol := range strings.SplitSeq(line, ",") {
			protocol = strings.ToLower(strings.TrimSpace(protocol))
			for _, p := range []string{"h2", "h3", "http", "tls"} {
				if strings.HasPrefix(protocol, p) {
					return true
				}
			}
		}
	}
	return false
}

// rewrites reports whether the target's paths are not those of the requests.
func (t *target) rewrites() bool { return t.prefix != "" || t.base != "" }

// isClear reports whether r, which asks for a path, is of one host and one length. Over
// HTTP/1 its target may have a scheme and a host before the path (RFC 9112
// §3.2.2), over HTTP/2 it may not; there a Host field beside :authority must be the
// same (RFC 9113 §8.3.1), and nobody has read the length yet.
func isClear(r *http.Request) bool {
	if r.ProtoMajor > 1 {
		for _, host := range r.Header["Host"] {
			if host != r.Host {
				return false
			}
		}
		if length := r.Header["Content-Length"]; len(length) > 1 || len(length) == 1 && strings.Trim(length[0], "0123456789") != "" {
			return false
		}
	}
	if r.RequestURI == "" || r.RequestURI[0] == '/' {
		return true
	}
	scheme, rest, _ := strings.Cut(r.RequestURI, "://")
	host := rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		host = rest[:end]
	}
	return r.ProtoMajor == 1 && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) &&
		host != "" && !strings.Contains(host, "@")
}

// setPath makes raw the path that u sends, byte for byte where that is safe.
func setPath(u *url.URL, raw string) {
	path, err := url.PathUnescape(raw)
	if err != nil { // impossible: the server has parsed it
		path = raw
	}
	u.Path, u.RawPath, u.Opaque = path, raw, ""
	// net/url escapes what should have been escaped. That changes what a
	// signature was made of, so it is prevented; but where an opaque URL cannot
	// tell a path from a host.
	if u.EscapedPath() != raw && !strings.HasPrefix(raw, "//") {
		u.Opaque = raw
	}
}

// setForwarded says for whom the request is forwarded: what trusted proxies
// said, and the peer.
func (g *Gateway) setForwarded(p *httputil.ProxyRequest, c *identity.Caller) {
	in, out := p.In.Header, p.Out.Header
	peer, proto := formatAddress(c.Peer()), "http"
	if p.In.TLS != nil {
		proto = "https"
	}
	host := p.In.Host
	if !c.Trusted() {
		v := &[3]string{host, proto, peer} // one allocation for all
		out["X-Forwarded-Host"], out["X-Forwarded-Proto"] = v[0:1:1], v[1:2:2]
		if peer != "" {
			out["X-Forwarded-For"] = v[2:3:3]
		}
		return
	}
	prior := ""
	switch g.header {
	case "X-Forwarded-For":
		prior = strings.Join(in["X-Forwarded-For"], ", ")
	case "Forwarded":
		element := "for=" + quoteNode(c.Peer()) + ";host=" + quoteString(host) + ";proto=" + proto
		before := strings.Join(in["Forwarded"], ", ")
		if openQuote(before) { // it would swallow what follows
			before = ""
		}
		out["Forwarded"] = []string{joinLists(before, element)}
	}
	if client := formatAddress(c.Address()); prior == "" && client != peer {
		prior = client
	}
	out["X-Forwarded-For"] = []string{joinLists(prior, peer)}
	// The proxy nearest to the client knows what the client asked for.
	for _, f := range []struct{ key, own string }{{"X-Forwarded-Host", host}, {"X-Forwarded-Proto", proto}, {"X-Forwarded-Port", ""}} {
		switch lines := in[f.key]; {
		case len(lines) == 1 && lines[0] != "":
			out[f.key] = lines
		case f.own != "":
			out[f.key] = []string{f.own}
		}
	}
}

// openQuote reports whether a quoted string begins in s and does not end.
func openQuote(s string) bool {
	in := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			in = !in
		case s[i] == '\\' && in:
			i++
		}
	}
	return in
}

// joinLists joins two lists of a header.
func joinLists(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + ", " + b
}

// formatAddress writes an address, "" for none.
func formatAddress(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// quoteNode writes an address as RFC 7239 §6 has it.
func quoteNode(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "unknown"
	case a.Is6():
		return `"[` + a.String() + `]"`
	}
	return a.String()
}

// quoteString writes a quoted string of RFC 9110 §5.6.4.
func quoteString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
