package identity

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/address"
)

// Facts is a request as a front end that is not plain HTTP knows it.
type Facts struct {
	// Peer is the other end of the connection. The zero Addr is one without an
	// address, as on a Unix socket.
	Peer netip.Addr
	// Method, Host and Query (without the question mark) as they were sent.
	Method, Host, Query string
	// Path as it was sent: escaped, without the query. An absolute form's host
	// counts in place of Host.
	Path string
	// Header with names in canonical form, as net/http has them. It is read, not
	// kept beyond Release.
	Header http.Header
	// Carried: somebody else got the request from Peer, tells of it, and adds fields of
	// his own, as Envoy does. They are no sign that Peer is a proxy.
	Carried bool
}

// known says which facts of a caller are found out already.
type known uint16

const (
	knownAddress known = 1 << iota
	knownMethod
	knownHost
	knownPath
	knownUser
	knownTier
	knownKey
	knownToken
	knownForm
	knownParties
	knownRequest // Set was called
	knownRefusal // whether the path is refused
)

// Caller is who sent one request, and the working memory to find out. Facts
// are found out when they are asked for, once. Not safe for concurrent use.
type Caller struct {
	r *Resolver
	found

	text      scratch
	entries   []weir.Entry
	others    []string // of the entries of a descriptor, see appendReadings
	parties   []party  // see findParties
	reading   uint8    // of the party whom a descriptor is made for, see weir.Descriptor
	keySealer sealer
}

// found is what a caller has of one request: all that points into it.
type found struct {
	f     Facts
	known known

	believed                   bool      // the peer is
	used, allowed              liberties // of the path
	target                     string    // as it was sent over HTTP, "" if that is not known
	key, token                 string    // as they were sent
	address                    netip.Addr
	method, host, path, domain string
	user, tier, apiKey         string
	keyRow                     *Key
	claims                     Claims
	late                       Claims              // of a token that is right but for its time
	forms                      [len(leaves)]string // of the path, other than path, "" behind the last
	plan                       *Plan               // by which it is counted in the domain, nil before
	// Faults of the request, nil if there are none.
	methodErr, hostErr, pathErr, formErr error
}

// Caps on what a released caller keeps, so that one large request does not
// stay in memory.
const (
	keepBytes   = 16 << 10
	keepEntries = 256
)

// Release gives the caller back. What it returned, and what a plan filled in
// from it, must not be used again.
func (c *Caller) Release() {
	c.Clear()
	c.r.callers.Put(c)
}

// Clear forgets the request and keeps the memory, for one who uses the caller again.
// What it returned, and what a plan filled in from it, must not be used again.
func (c *Caller) Clear() {
	clear(c.entries) // they point into the request
	clear(c.others[:cap(c.others)])
	clear(c.parties)
	c.text.buf, c.entries, c.others = c.text.buf[:0], c.entries[:0], c.others[:0]
	if cap(c.text.buf) > keepBytes {
		c.text.buf = nil
	}
	if cap(c.entries) > keepEntries {
		c.entries = nil
	}
	if cap(c.others) > keepEntries {
		c.others = nil
	}
	c.found = found{}
}

// Set tells the caller the request.
func (c *Caller) Set(f Facts) {
	c.resetFacts()
	c.f = f
	c.adoptFacts()
}

// resetFacts makes room for the facts of a request.
func (c *Caller) resetFacts() {
	if c.known != 0 { // it was told another before
		c.found = found{}
	}
	c.known, c.allowed = knownRequest, c.r.allowed
}

// adoptFacts takes over what stands in c.f.
func (c *Caller) adoptFacts() {
	c.f.Peer = address.Bare(c.f.Peer)
	c.believed = c.r.proxies.believes(c.f.Peer)
	path, host := cutTarget(c.f.Path)
	c.f.Path = path
	if host != "" {
		c.f.Host = host
	}
}

// SetHTTP tells the caller the request. Its peer is RemoteAddr, which must be
// as the server set it.
func (c *Caller) SetHTTP(r *http.Request) {
	c.resetFacts()
	f := &c.f
	if r.RemoteAddr != "" && r.RemoteAddr[0] != '@' {
		if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			f.Peer = ap.Addr()
		}
	}
	f.Method, f.Host, f.Header = r.Method, r.Host, r.Header
	u, ready := r.URL, false
	if u != nil {
		f.Query = u.RawQuery
		// What stands in the target as net/url has decoded it needs not be escaped again.
		// It has decoded %21 too, and keeps no note of that.
		ready = u.RawPath == "" && u.Opaque == "" && strings.HasPrefix(r.RequestURI, u.Path) && c.r.paths.isCanonical(u.Path)
		switch {
		case ready:
			f.Path = u.Path
		case u.Opaque != "": // as of "GET http:login": no path, but forwarded as one
			f.Path = u.Opaque
		default:
			f.Path = escapedPath(u)
		}
	}
	c.adoptFacts()
	c.target = r.RequestURI // net/url escapes what should have been
	if ready {
		c.path, c.known = f.Path, c.known|knownPath
	}
}

// Address returns the client's address, through trusted proxies: not mapped,
// without a zone, an IPv4 address behind NAT64 as such. It is the zero Addr if
// the peer has none.
func (c *Caller) Address() netip.Addr {
	if c.known&knownAddress == 0 {
		c.known |= knownAddress
		a := c.f.Peer
		if p := &c.r.proxies; c.believed && p.form != formNone {
			a = p.findClient(a, c.f.Header[p.header])
		}
		c.address = translated(a, c.r.nat64)
	}
	return c.address
}

// Peer returns the other end of the connection: not mapped, without a zone.
func (c *Caller) Peer() netip.Addr { return c.f.Peer }

// Trusted reports whether the peer is one of the trusted proxies.
func (c *Caller) Trusted() bool { return c.believed }

// Method returns the canonical method: in upper case, and GET for HEAD, which
// is answered by the same work. With Options.MethodOverride a POST is the
// method that the header names. It is "" if it cannot be read, see Err.
func (c *Caller) Method() string {
	if c.known&knownMethod != 0 {
		return c.method
	}
	c.known |= knownMethod
	switch c.method = c.f.Method; c.method {
	case "GET", "PUT", "DELETE", "PATCH", "OPTIONS":
	case "POST":
		if lines := c.f.Header[c.r.override]; len(lines) > 0 && c.r.override != "" {
			if c.method, c.methodErr = c.text.keepResult(appendMethod(c.text.buf, trimSpace(lines[0]))); len(lines) > 1 {
				c.method, c.methodErr = "", errMethod // upstreams differ in which counts
			}
		}
	default:
		c.method, c.methodErr = c.text.keepResult(appendMethod(c.text.buf, c.method))
	}
	return c.method
}

// Host returns the canonical host: in lower case, without port and final dot.
// It is "" if there is none, or it cannot be read, see Err.
func (c *Caller) Host() string {
	if c.known&knownHost != 0 {
		return c.host
	}
	c.known |= knownHost
	if c.host = c.f.Host; !isCanonicalHost(c.host) {
		c.host, c.hostErr = c.text.keepResult(appendHost(c.text.buf, c.host))
	}
	return c.host
}

// escapedPath returns the path of u as it was sent. URL.EscapedPath escapes what should
// have been, and then knows no escaped slash any more.
func escapedPath(u *url.URL) string {
	if path, err := url.PathUnescape(u.RawPath); u.RawPath != "" && err == nil && path == u.Path {
		return u.RawPath
	}
	return u.EscapedPath()
}
