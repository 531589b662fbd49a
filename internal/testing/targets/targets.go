// Package targets makes request targets as attackers write them, and models how servers
// read their paths.
package targets

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
)

// glue is what stands between the segments of a target that some server reads in its
// own way. The first of these lists is the commonest.
var glue = []string{
	"/", "//", "///", `\`, "%5c", "%5C", "%2f", "%2F", ";/", ";x=1/", "/;x/", "/./", "/../", "/..;/", "/..;x=1/", "/.;/",
	"/%2e/", "/%2e%2E/", "/.%2e/", "/%2e./", "/..%3b/", `\..\`, "%5c..%5c", "%2f..%2f", "..%2f", "/x/../", "/x%2f..%2f../", "/%252e%252e/", "%252f", "/.../", "/..x/",
	"%3b/", "/%20/", "/%7e/", "/[x]/", "/a|b/", "/caf%c3%a9/", "/..\\", "/..%5c", "/x;/../", "/%2e%2e;/", "/..%2f..;/", ";/../", "/%3b../", "/+/", "/%21/", "%28/", ":/", "@/",
}

// starts are how a target may begin before its first segment.
var starts = []string{"/", "//", "///", `/\`, `\/`, "/%2f", "/%5c", "/./", "/../", "/;/", "/;x/", "http://h/", "http://h//", `http://h/\`, "HTTP://h/../"}

// ends are how one may end.
var ends = []string{"", "/", "//", "/.", "/..", "/..;", ";", ";jsessionid=1", "/%2e", `\`, "%2f", "%5c", "?a=/../b", "/?a", "..", "%2e%2e", "/;"}

// Make returns a target of segments of words, of which some may be spelt otherwise.
func Make(r *rand.Rand, words []string) string {
	pick := func(from []string) string {
		if r.IntN(2) == 0 {
			return from[0]
		}
		return from[r.IntN(len(from))]
	}
	var b strings.Builder
	b.WriteString(pick(starts))
	for i, n := 0, 1+r.IntN(4); i < n; i++ {
		if i > 0 {
			b.WriteString(pick(glue))
		}
		word := words[r.IntN(len(words))]
		if r.IntN(12) == 0 {
			at := r.IntN(len(word))
			word = word[:at] + "%" + string("0123456789abcdef"[word[at]>>4]) + string("0123456789abcdef"[word[at]&15]) + word[at+1:]
		}
		b.WriteString(word)
	}
	b.WriteString(pick(ends))
	return b.String()
}

// Reader reads the path of a target as some servers do: the segments that it routes by.
type Reader struct {
	Name string
	Read func(path string) []string
}

// Readers are models of servers, of which each takes another liberty.
var Readers = []Reader{
	{"as written: Express, Flask, PHP's PATH_INFO", func(p string) []string { return decodeEach(split(p)) }},
	{"dots resolved: RFC 3986", func(p string) []string { return decodeEach(resolve(split(p))) }},
	{"segments decoded, dots resolved", func(p string) []string { return resolve(decodeEach(split(p))) }},
	{"decoded first, slashes merged, dots resolved: nginx", func(p string) []string { return resolve(merge(split(decode(p)))) }},
	{"decoded first: WSGI, CGI", func(p string) []string { return split(decode(p)) }},
	{"decoded first, backslashes too: IIS", func(p string) []string { return resolve(merge(split(strings.ReplaceAll(decode(p), `\`, "/")))) }},
	{"parameters cut, decoded, merged, resolved: Tomcat", func(p string) []string { return resolve(merge(split(decode(cutParameters(p))))) }},
	{"ends at a semicolon: Fastify", func(p string) []string { p, _, _ = strings.Cut(p, ";"); return decodeEach(split(p)) }},
	{"new URL(target, base): Node", whatwg},
	{"mux that cleans: Go", func(p string) []string { return merge(resolve(split(decode(p)))) }},
	{"nothing decoded: the routers of Express and Koa", split},
	{"decodeURI: the router of Fastify", func(p string) []string { return split(decodeBut(p, "$&+,/:;=?@#")) }},
	{"what needs no escape decoded: Envoy", func(p string) []string { return split(decodeBut(p, "!$&'()*+,/:;=?@#[]")) }},
}

// Path returns the path of a target, without the scheme and host of an absolute form.
func Path(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if _, rest, ok := strings.Cut(path, "://"); ok && path[0] != '/' {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	return path
}

func split(p string) []string {
	s := strings.Split(strings.TrimPrefix(p, "/"), "/")
	if s[len(s)-1] == "" { // the slash at the end
		s = s[:len(s)-1]
	}
	return s
}

func decodeEach(s []string) []string {
	for i := range s {
		s[i] = decode(s[i])
	}
	return s
}

func decode(s string) string {
	d, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return d
}

// decodeBut leaves the escapes of the bytes in left.
func decodeBut(s, left string) string {
	for i := 0; i+2 < len(s); i++ {
		if c := decode(s[i : i+3]); s[i] == '%' && len(c) == 1 && c != "%" && strings.IndexByte(left, c[0]) < 0 {
			s = s[:i] + c + s[i+3:]
		}
	}
	return s
}

func merge(s []string) []string {
	return slices.DeleteFunc(s, func(one string) bool { return one == "" })
}

func resolve(s []string) (out []string) {
	for _, one := range s {
		switch one {
		case ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, one)
		}
	}
	return out
}

func cutParameters(p string) string {
	s := strings.Split(p, "/")
	for i := range s {
		s[i], _, _ = strings.Cut(s[i], ";")
	}
	return strings.Join(s, "/")
}

// whatwg reads as the URL Standard does: a backslash is a slash, and two of them at the
// start are before a host.
func whatwg(p string) []string {
	p = strings.ReplaceAll(p, `\`, "/")
	if rest, ok := strings.CutPrefix(p, "//"); ok {
		_, p, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		p = "/" + p
	}
	return resolve(decodeEach(split(p)))
}
