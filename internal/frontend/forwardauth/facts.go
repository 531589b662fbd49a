package forwardauth

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirlimit/weir/identity"
)

// family is the header fields, in canonical form, by which proxies of one kind
// tell of the request. A proxy sets all of them that it sets on every request:
// what one does not set, its client can.
type family struct {
	name   string
	method string
	uris   []string
	host   string // empty: that of the URI, if it has one
}

var families = [...]family{
	{"forwarded", "X-Forwarded-Method", []string{"X-Forwarded-Uri"}, "X-Forwarded-Host"},
	{"original", "X-Original-Method", []string{"X-Original-Uri", "X-Original-Url"}, ""},
}

func familyNamed(name string) *family {
	if i := slices.IndexFunc(families[:], func(f family) bool { return f.name == name }); i >= 0 {
		return &families[i]
	}
	return nil
}

// Faults of a question, made once.
var (
	errNoURI    = errors.New("the request of the client is unknown: the proxy must send X-Forwarded-Uri and X-Forwarded-Method, or X-Original-URI and X-Original-Method")
	errNoMethod = errors.New("the proxy does not say the method: beside X-Forwarded-Uri it must send X-Forwarded-Method, beside X-Original-URI X-Original-Method")
	errDiffer   = errors.New("X-Forwarded-* and X-Original-* name different requests, one of them sent by the client: name the one that the proxy sets by the parameter from=forwarded or from=original, or make it drop the others")
	errURI      = errors.New("the proxy sends a URI that is neither a path nor a URL")
)

// original is what a family says of a request.
type original struct{ method, target, host string }

// readFields returns what the fields of f in h say, and whether there is a URI among
// them.
func (f *family) readFields(h http.Header) (t original, found bool, err error) {
	for _, name := range f.uris {
		line, err := singleLine(h, name)
		if err != nil {
			return t, true, err
		}
		if line == "" {
			continue
		}
		target, host := line, ""
		if line[0] != '/' && line != "*" {
			if target, host, err = cutURL(line); err != nil {
				return t, true, err
			}
		}
		if found && target != t.target {
			return t, true, errDiffer
		}
		found, t.target, t.host = true, target, cmp.Or(host, t.host)
	}
	if !found {
		return t, false, nil
	}
	if t.method, err = singleLine(h, f.method); err != nil {
		return t, true, err
	}
	if t.method == "" {
		return t, true, errNoMethod
	}
	if f.host != "" {
		host, err := singleLine(h, f.host)
		if err != nil {
			return t, true, err
		}
		t.host = cmp.Or(host, t.host)
	}
	return t, true, nil
}

// singleLine returns the one line of a field, empty if there is none. Of two one is
// somebody else's.
func singleLine(h http.Header, name string) (string, error) {
	switch lines := h[name]; len(lines) {
	case 0:
		return "", nil
	case 1:
		return lines[0], nil
	default:
		return "", fmt.Errorf("%s is there on %d lines: the proxy must set it, not add to what the client sent", name, len(lines))
	}
}

// cutURL takes an absolute URL apart: path and query as they are written, host.
func cutURL(u string) (target, host string, err error) {
	scheme, rest, ok := strings.Cut(u, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", "", errURI
	}
	host, target = rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		if host, target = rest[:i], rest[i:]; target[0] == '?' {
			target = "/" + target
		}
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	return target, host, nil
}

// factsOfFields returns the request that r's header fields tell of. from is the
// family to believe, nil for whichever is there.
func factsOfFields(r *http.Request, from *family) (identity.Facts, error) {
	var t original
	found := false
	for i := range families {
		f := &families[i]
		if from != nil && from != f {
			continue
		}
		one, here, err := f.readFields(r.Header)
		switch {
		case err != nil:
			return identity.Facts{}, err
		case !here:
		case !found:
			t, found = one, true
		case one.method != t.method || one.target != t.target:
			return identity.Facts{}, errDiffer
		}
	}
	if !found {
		return identity.Facts{}, errNoURI
	}
	t.host = cmp.Or(t.host, r.Host)
	return factsOf(r, t), nil
}

// factsOf returns the facts of a request whose header is r's.
func factsOf(r *http.Request, t original) identity.Facts {
	path, query, _ := strings.Cut(t.target, "?")
	return identity.Facts{Peer: peerAddress(r), Method: t.method, Host: t.host, Path: path, Query: query, Header: r.Header}
}

// peerAddress returns the other end of the connection, the zero Addr for one without an
// address.
func peerAddress(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr) // zero with an error
	return ap.Addr()
}
