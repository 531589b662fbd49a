package identity

import (
	"net/netip"
	"strings"
)

// Caps on what is read, in bytes.
const (
	maxMethod = 32
	maxHost   = 255 // RFC 1035 §2.3.4
)

// cutTarget takes a request target apart: the path as it is written, and the
// host of an absolute form, which counts in place of the header. The target *,
// which OPTIONS may have, is read as the path /*.
//
// Source: RFC 9112 §3.2.
func cutTarget(target string) (path, host string) {
	if target == "" || target[0] == '/' {
		return target, ""
	}
	if target == "*" {
		return "/*", ""
	}
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || strings.IndexFunc(scheme, func(c rune) bool { return c > 0x7f || !isAlnum(byte(c)) && !strings.ContainsRune("+-.", c) }) >= 0 {
		return target, ""
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host = rest[:end]
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	return rest[end:], host
}

// hostBytes are those of a canonical host.
var hostBytes = newByteSet(func(c byte) bool { return isAlnum(c) && lowerByte(c) == c || strings.IndexByte("-_.", c) >= 0 })

// isCanonicalHost reports whether host is its own canonical form, and no IPv6 address.
func isCanonicalHost(host string) bool {
	return host != "" && len(host) <= maxHost && host[0] != '.' && host[len(host)-1] != '.' &&
		hostBytes.hasAll(host) && !strings.Contains(host, "..")
}

// appendHost appends the canonical form of a Host header: lower case, without
// the port, without the dot of the root, an IPv6 address in brackets as RFC
// 5952 writes it. No host is none. An international name must be in its ASCII
// form, as RFC 3986 §3.2.2 and browsers have it.
func appendHost(b []byte, host string) ([]byte, error) {
	if host == "" {
		return b, nil
	}
	if len(host) > maxHost+6 {
		return b, errHost
	}
	if host[0] == '[' {
		end := strings.IndexByte(host, ']')
		if end < 0 || !isHostPort(host[end+1:]) {
			return b, errHost
		}
		a, err := netip.ParseAddr(host[1:end])
		if err != nil || a.Is4() || a.Zone() != "" {
			return b, errHost
		}
		b = append(b, '[')
		b = a.AppendTo(b)
		return append(b, ']'), nil
	}
	if i := strings.IndexByte(host, ':'); i >= 0 {
		if !isHostPort(host[i:]) {
			return b, errHost
		}
		host = host[:i]
	}
	from := len(b)
	b = appendLower(b, strings.TrimSuffix(host, "."))
	if !isCanonicalHost(viewAsText(b[from:])) {
		return b, errHost
	}
	return b, nil
}

// isHostPort reports whether s is empty, a colon, or a colon and a port.
func isHostPort(s string) bool { return s == ":" || isPortSuffix(s) }

// appendMethod appends the canonical form of a method: in upper case, and HEAD
// as GET, since it is GET to whoever makes the answer: else everybody had every
// GET limit twice.
func appendMethod(b []byte, method string) ([]byte, error) {
	if len(method) > maxMethod || method != "" && !isToken(method) {
		return b, errMethod
	}
	switch {
	case method == "", strings.EqualFold(method, "HEAD"):
		return append(b, "GET"...), nil
	}
	for i := 0; i < len(method); i++ {
		c := method[i]
		if c >= 'a' && c <= 'z' {
			c -= 0x20
		}
		b = append(b, c)
	}
	return b, nil
}
