package gateway

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// rewrite makes the request to the upstream. The client's own claims about who
// forwarded it are dropped: ReverseProxy knows the commonest alone.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	u := p.Out.URL
	u.Scheme, u.Host = g.opt.Upstream.Scheme, g.opt.Upstream.Host
	if u.Scheme == "h2c" {
		u.Scheme = "http"
	}
	p.Out.Host = ""
	setPath(u, strings.TrimSuffix(g.opt.Upstream.EscapedPath(), "/")+rawPath(p.In))
	// As it came: nothing here reads the query, so no two readers can differ.
	u.RawQuery = p.In.URL.RawQuery
	dropClaims(p.Out.Header)
	dropClaims(p.Out.Trailer)
	if len(p.Out.Trailer) > 0 && p.Out.Body != nil {
		p.Out.Body = &trailed{ReadCloser: p.Out.Body, from: p.In.Trailer, to: p.Out.Trailer}
	}
	p.SetXForwarded()
}

// rawPath returns the path of r as the client wrote it, beginning with a slash.
func rawPath(r *http.Request) string {
	path := r.RequestURI
	if path == "" { // made by a program, not read from a connection
		path = r.URL.EscapedPath()
	}
	path, _, _ = strings.Cut(path, "?")
	if _, rest, ok := strings.Cut(path, "://"); ok && path[0] != '/' { // absolute form
		path = ""
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			path = rest[slash:]
		}
	}
	if path == "" {
		return "/"
	}
	return path
}

// setPath makes raw the path that u sends, byte for byte where that is safe.
func setPath(u *url.URL, raw string) {
	path, err := url.PathUnescape(raw)
	if err != nil { // impossible: the server has parsed it
		path = raw
	}
	u.Path, u.RawPath, u.Opaque = path, raw, ""
	// net/url escapes what should have been escaped. That changes what a
	// signature was made of, so it is prevented; but for what servers would
	// take for the end of the path, and where an opaque URL cannot tell a path
	// from a host.
	if u.EscapedPath() != raw && !strings.HasPrefix(raw, "//") && !strings.Contains(raw, "#") {
		u.Opaque = raw
	}
}

// dropClaims removes what says who forwarded a request.
func dropClaims(h http.Header) {
	for key := range h {
		if begins(key, "x-forwarded-") || is(key, "x-real-ip") || is(key, "forwarded") {
			delete(h, key)
		}
	}
}

// is reports whether a header's key is name, see begins.
func is(key, name string) bool { return len(key) == len(name) && begins(key, name) }

// begins reports whether a header's key begins with name, which is in lower
// case; in whatever case, and with underscores for dashes, which many servers
// read alike.
func begins(key, name string) bool {
	if len(key) < len(name) {
		return false
	}
	for i := range len(name) {
		c := key[i]
		switch {
		case c == '_':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}
