package identity

import (
	"net/netip"
	"strings"
)

// cutForwarded cuts the last element off a Forwarded line. Commas in quotes
// separate nothing. It reads from the end, so that a quote which a client left
// open cannot swallow what a proxy wrote behind it.
//
// Source: RFC 7239 §4.
func cutForwarded(line string) (rest, last string) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case '"':
			if !escaped(line, i) {
				quoted = !quoted
			}
		case ',':
			if !quoted {
				return line[:i], line[i+1:]
			}
		}
	}
	return "", line
}

// escaped reports whether the byte at i has a backslash that is not itself
// escaped before it.
func escaped(s string, i int) bool {
	n := 0
	for i > n && s[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// maxElement bounds a forwarded-element: four parameters and some extensions.
const maxElement = 1024

// forwardedFor returns the address that an element's "for" names. An element
// without one, with two, with an obfuscated name or "unknown" has none.
func forwardedFor(element string) (netip.Addr, bool) {
	var node string
	if len(element) > maxElement {
		return netip.Addr{}, false
	}
	for rest := element; rest != ""; {
		var pair string
		pair, rest = cutPair(rest)
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return netip.Addr{}, false
		}
		if !strings.EqualFold(trimSpace(name), "for") {
			continue
		}
		if node != "" {
			return netip.Addr{}, false
		}
		if node = unquote(trimSpace(value)); node == "" {
			return netip.Addr{}, false
		}
	}
	// An IPv6 address stands in brackets, RFC 7239 §6; without them its end and
	// the port's begin are anyone's guess.
	if node != "" && node[0] != '[' && strings.Count(node, ":") > 1 {
		return netip.Addr{}, false
	}
	return parseNode(node)
}

// cutPair cuts the first forwarded-pair off an element.
func cutPair(s string) (pair, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if quoted {
				i++
			}
		case '"':
			quoted = !quoted
		case ';':
			if !quoted {
				return s[:i], s[i+1:]
			}
		}
	}
	return s, ""
}

// unquote returns what a quoted string holds, or s if it is none; "" if it is
// broken.
func unquote(s string) string {
	if s == "" || s[0] != '"' {
		return s
	}
	if len(s) < 2 || s[len(s)-1] != '"' || escaped(s, len(s)-1) {
		return ""
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
