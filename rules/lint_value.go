package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/pattern"
	"github.com/weirlimit/weir/internal/spell"
)

// The warnings of this file are about rules that load and match no request: a
// limit that is written and never enforced. They never stop a file from loading,
// since an API client may send any key with any value.

// sources are the keys that front ends give entries of their own accord, and
// prefixes those that take a name behind the colon.
var (
	sources = []string{"remote_address", "user", "api_key", "tier", "client", "client_id", "method", "path", "host",
		"route", "generic_key"}
	prefixes = []string{"header", "cookie", "query", "jwt", "unverified_jwt", "param"}
)

// aliases are other words for a source, in lower case and without punctuation.
var aliases = map[string]string{
	"ip": "remote_address", "ipaddress": "remote_address", "clientip": "remote_address", "sourceip": "remote_address",
	"remoteip": "remote_address", "remoteaddr": "remote_address", "clientaddress": "remote_address", "address": "remote_address",
	"realip": "remote_address", "xrealip": "remote_address", "xforwardedfor": "remote_address", "forwardedfor": "remote_address",
	"userip": "remote_address", "srcip": "remote_address", "peeraddress": "remote_address", "ipaddr": "remote_address",
	"requesturi": "path", "requesturl": "path", "requestmethod": "method",
	"url": "path", "uri": "path", "requestpath": "path", "verb": "method", "httpmethod": "method", "hostname": "host",
	"authority": "host", "apitoken": "api_key", "xapikey": "header:X-API-Key", "useragent": "header:User-Agent",
}

// descriptor warns of a key that no front end sends, and of a value that no
// request has.
func (l *linter) descriptor(spec *descriptorSpec, path string) {
	l.checkKey(spec.Key, spec.Node.valueOrSelf("key"), path)
	if spec.Value == "" {
		return
	}
	at := spec.Node.valueOrSelf("value")
	if matches := l.checkValue(spec.Key, spec.Value, at, path); matches && spec.Key == "path" && pattern.Is(spec.Value) &&
		spec.Node.valueOf("share_threshold") == nil {
		l.addWarning(at, path, "add share_threshold: true for one counter, or share_threshold: false to keep one for each",
			"each path that matches %q has its own counter", spec.Value)
	}
}

// checkKey warns of a key that is nearly a source, and none.
func (l *linter) checkKey(key string, n *node, path string) {
	if key == "" {
		return
	}
	if strings.ContainsAny(key, " \t") || joinsSources(key) {
		l.addWarning(n, path, "write one key, and those that follow it beneath descriptors:", "key %q is not one entry", key)
		return
	}
	if meant := nearestSource(key); meant != "" {
		l.addWarning(n, path, fmt.Sprintf("did you mean %q?", meant),
			"no front end sends the key %q by itself, only a caller of the API can", key)
		return
	}
	if word, _, _ := strings.Cut(key, ":"); l.form != nil && (isAddressKey(key) || word == "header" || word == "cookie") {
		if _, err := l.form(key, "unknown"); err != nil {
			l.addWarning(n, path, "", "no front end sends the key %q: %s", key, strings.TrimPrefix(err.Error(), "identity: "))
		}
	}
}

// joinsSources reports whether a key is several sources in one, such as path/method.
func joinsSources(key string) bool {
	parts := strings.FieldsFunc(key, func(c rune) bool { return strings.ContainsRune("/,;+|&", c) })
	return len(parts) > 1 && !slices.ContainsFunc(parts, func(s string) bool { return !slices.Contains(sources, s) })
}

// commonWords are one letter away from a short source, and more likely meant as they
// are.
var commonWords = []string{"bath", "cost", "ghost", "lost", "math", "most", "oath", "pier", "post"}

// nearestSource returns the source that key is a misspelling or another word of,
// "" if there is none or key is a source.
func nearestSource(key string) string {
	word, arg, hasArg := strings.Cut(key, ":")
	if arg == "" {
		for _, p := range prefixes {
			if bareWord(word) == bareWord(p) {
				return p + ":NAME"
			}
		}
	}
	if hasArg {
		if w := bareWord(word); w == "claim" || w == "claims" {
			return "jwt:" + arg
		}
		for _, p := range prefixes {
			if word == p {
				return ""
			}
			if bareWord(word) == bareWord(p) || spell.Distance(strings.ToLower(word), p) == 1 {
				return p + ":" + arg
			}
		}
		return ""
	}
	if i := strings.IndexAny(key, "./"); i > 0 {
		for _, p := range prefixes {
			if strings.EqualFold(key[:i], p) {
				return p + ":" + key[i+1:]
			}
		}
		// remote_address/24
		if word, bits, ok := strings.Cut(key, "/"); ok && word != "remote_address" && nearestSource(word) == "remote_address" {
			return "remote_address/" + bits
		}
		return ""
	}
	// client_ip means an address, not client_id.
	best := aliases[bareWord(key)]
	for _, s := range sources {
		switch {
		case key == s:
			return ""
		case best != "":
		case bareWord(key) == bareWord(s), spell.Distance(key, s) == 1 && !slices.Contains(commonWords, key):
			best = s
		}
	}
	return best
}

// punctuation is built once: a file of many rules asks for every key.
var punctuation = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// bareWord returns s in lower case and without punctuation.
func bareWord(s string) string { return punctuation.Replace(strings.ToLower(s)) }

// checkValue warns of a value, or a pattern of values, of the entry with the given
// key, that no request has. It reports whether it found none wrong.
func (l *linter) checkValue(key, value string, n *node, path string) bool {
	if msg, hint := l.explainNoMatch(key, value); msg != "" {
		l.addWarning(n, path, hint, "the value %q never matches: %s", value, msg)
		return false
	}
	// Of addresses the form was asked, where it is known.
	if p, err := netip.ParsePrefix(value); err == nil && !(isAddressKey(key) && (l.form != nil || p.Addr().Is6())) {
		l.addWarning(n, path, "put it into allow: or deny:, which know CIDR",
			"the value %q matches this very text, not the addresses in it", value)
		return false
	}
	return true
}

// checkListValue is value for a value of an allow or deny list, where addresses may be
// ranges.
func (l *linter) checkListValue(key, value string, n *node, path string) {
	if isAddressKey(key) {
		if p, ok := parseRange(value); ok {
			l.checkRange(key, value, p, n, path)
			return
		}
	}
	l.checkValue(key, value, n, path)
}

// checkRange warns of an address range that is within one client: it is never known
// which of the client's addresses a request came from.
func (l *linter) checkRange(key, value string, p netip.Prefix, n *node, path string) {
	if l.form == nil {
		return
	}
	form, err := l.form(key, p.Addr().String())
	if err != nil {
		return
	}
	if client, err := netip.ParsePrefix(form); err == nil && client.Bits() < p.Bits() {
		l.addWarning(n, path, fmt.Sprintf("write %s", form),
			"%q never matches: an address of that kind is counted as %s", value, form)
	}
}

// isAddressKey reports whether entries of the key hold the client's address, or
// so many bits of it.
func isAddressKey(key string) bool {
	word, _, _ := strings.Cut(key, "/")
	return word == "remote_address"
}

// parseRange reads an address or a prefix.
func parseRange(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p, true
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a.WithZone(""), a.BitLen()), true
}

// clientPrefixes are what values of client begin with.
var clientPrefixes = []string{"user:", "api_key:", "address:"}

// explainNoMatch says why no request has a value that fits the pattern, and what to write;
// "" if one may.
func (l *linter) explainNoMatch(key, value string) (msg, hint string) {
	switch {
	case strings.TrimSpace(value) != value:
		return "it begins or ends with a space", "leave the space out"
	case strings.ContainsAny(value, "{}"):
		return "braces mean nothing here", "write a * for any text, such as /users/*"
	case isRegexp(key, value):
		return "it looks like a regular expression, which values are not", "write the text itself, with a * for any text"
	}
	switch word, _, _ := strings.Cut(key, "/"); word {
	case "path":
		if msg, hint = neverPath(value); msg != "" {
			return msg, hint
		}
	case "method":
		if strings.ContainsAny(value, ",|") {
			return "it names several methods", "write a rule for each"
		}
	case "remote_address":
		switch _, ok := parseRange(value); {
		case pattern.Is(value):
			if strings.Trim(value, "0123456789abcdef.:/*") != "" {
				return "addresses are written in digits and lower case", ""
			}
		case !ok && value != "unknown":
			return "it is not a whole IP address", "write all of it, or 10.0.0.* for those that begin so"
		}
	case "client":
		head, _, pattern := strings.Cut(value, "*")
		if !slices.ContainsFunc(clientPrefixes, func(p string) bool {
			return strings.HasPrefix(head, p) || pattern && strings.HasPrefix(p, head)
		}) {
			return "a client is written with what it is known by", "write user:" + value + ", api_key:..., or address:..."
		}
	case "host":
		if strings.Contains(value, "://") || strings.Contains(value, "/") {
			return "a host has neither scheme nor path", "write the name alone, such as api.example.com"
		}
	}
	return l.otherForm(key, value)
}

// neverPath is never for what is typical of paths.
func neverPath(value string) (msg, hint string) {
	switch {
	case strings.Contains(value, "://"):
		return "a path has neither scheme nor host", "begin with the slash of the path"
	case strings.ContainsRune(value, '?'):
		return "the query is no part of the path", "end before the ?; a parameter is an entry of its own, query:NAME"
	case strings.Contains(value, "/:"), strings.ContainsAny(value, "<>"):
		return "it looks like the parameter of a router", "write a * for any text, such as /users/*"
	case strings.Contains(value, " /"):
		return "the method is no part of the path", "write the path alone; the method is an entry of its own, key: method"
	case value[0] != '/' && value[0] != '*':
		return "a path begins with a slash", "write /" + value
	}
	return "", ""
}

// otherForm says why front ends write the value another way. What a * stands for
// is taken to be a letter.
func (l *linter) otherForm(key, value string) (msg, hint string) {
	if l.form == nil {
		return "", ""
	}
	letter := "x"
	if key == "method" {
		letter = "X"
	}
	sample := strings.ReplaceAll(value, "*", letter)
	pattern := sample != value
	if pattern && (isAddressKey(key) || key == "api_key") {
		return "", "" // part of what has a form only as a whole
	}
	if key == "path" && sample[0] != '/' {
		sample = "/" + sample
	}
	form, err := l.form(key, sample)
	switch {
	case err != nil:
		if _, isRange := parseRange(value); isRange && isAddressKey(key) {
			hint = "put it into allow: or deny:, which know CIDR"
		}
		return strings.TrimPrefix(err.Error(), "identity: "), hint
	case form == sample:
		return "", ""
	case pattern:
		return fmt.Sprintf("what would match %s is seen as %s", sample, form), ""
	case form == "":
		return "no request has it", ""
	}
	return fmt.Sprintf("the %s is seen as %s", key, form), "write " + form
}

// isRegexp reports whether a value looks like a regular expression. A value is a
// text in which * stands for any text, so v1.* is well, and /v1/.* is not.
func isRegexp(key, value string) bool {
	switch {
	case strings.HasPrefix(value, "^"), key == "path" && strings.HasPrefix(value, "~"),
		key == "path" && strings.HasSuffix(value, "$") && len(value) > 1,
		strings.Contains(value, "(?"), strings.Contains(value, ".+"),
		strings.Contains(value, "(") && strings.Contains(value, "|") && strings.Contains(value, ")"):
		return true
	}
	// A text may end in a dot before the *, as v1.* does.
	if i := strings.Index(value, ".*"); i == 0 || i > 0 && value[i-1] != '*' && !isAlnum(value[i-1]) {
		return true
	}
	if open := strings.IndexByte(value, '['); open >= 0 {
		if _, err := netip.ParseAddr(strings.Trim(value, "[]")); err != nil && strings.IndexByte(value[open:], ']') > 1 {
			return true
		}
	}
	for i := 0; i+1 < len(value); i++ {
		if value[i] == '\\' && strings.IndexByte("dDwWsSbB.+*?/-^$|()[]{}", value[i+1]) >= 0 {
			return true
		}
	}
	return false
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
