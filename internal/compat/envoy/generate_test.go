package envoy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf16"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// generator makes rules and requests that meet them.
type generator struct {
	*rand.Rand
	// flaws is the chance of something that is refused, in a thousand lines.
	flaws int
	// paths are the keys and values of the descriptors made.
	paths   [][]pairs
	domains []string
	names   int
	// tame: no wildcards.
	tame bool
	// between: no limits per second or year.
	between bool
	// wide: more of what is odd. brief: nothing long.
	wide, brief bool
	// oneLine: statistics are told in lines.
	oneLine bool
	// atMost is how many levels there are, 0 for 4.
	atMost int
	// limits and levels are the anchors of limits and of levels so far, and the
	// paths within those.
	limits  []string
	anchors []anchor
}

// anchor is a level that can be named again.
type anchor struct {
	name  string
	paths [][]pairs
}

type pairs struct{ key, value string }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) flaw() bool { return g.IntN(1000) < g.flaws }

func (g *generator) key() string {
	if g.wide && g.chance(25) {
		return g.plain(pick(g, "\n", "\t", "\x00", "\x7f", "a\nb", "k_*_k", "a.b.c", "a=b", "=", "\u2028", "\ufeff", "\U0001d54f", "*_*", "a*_*b", "remote_address", "a|b",
			"__", "_a", ".", "..", "1", "true", "null", "~", "- a", "#a", "&a", "*a", "!a", "{a}", "'", "\"", "\\", "\\*", "a,b", " a ", "generic_key", "1.2.3.4", "cafe\u0301", "\r\n"))
	}
	return pick(g, "a", "a", "a", "b", "b", "c", "a_b", "ip", "k*", "*", "a_", "é", "x.y", "_", "a:b",
		"sp ace", "%s", "A", "k*k", "**", "10.1.2.3")
}

// plain returns a text without what the reference or its statistics cannot carry.
func (g *generator) plain(text string) string {
	if g.between {
		// Spaces that are not ASCII it cannot read back from Memcached, and limits
		// nothing.
		text = strings.ReplaceAll(text, "\u2028", "u")
	}
	if g.oneLine {
		text = strings.NewReplacer("\n", "n", "\r", "r").Replace(text)
	}
	return text
}

func (g *generator) value() string {
	if g.wide && g.chance(25) {
		return g.plain(pick(g, "\n", "\t", "\x00", "\x7f\x01", "a\nb", "\\*", "a\\*b", "[a-z]*", "?", "x**y", "*x*y*", "*a", "***", "1.2.3.4:80", "1.2.3.4|*", "::1", "10.0.0.1.10.0.0.2",
			"999.999.999.999", "1.2.3.4567", "1.2.3.*", "*.2.3.4", "0x1F", "010", "1_000", "yes", "no", "on", "1e3", "1.5", "2001-01-01", "12:30:45", "=", "<<", "\u2028", "\ufeff*", "\U0001d54f*",
			"a.*.b", "..", ".", "/api/*/v1", "/api/v1/*", "/*", "a_*_b", "*_*", "__", "_*_", "{}", "[]", "#", "a: b", "- a", "%s%d", "$1", "${1}", "\r", "\r\n", "cafe\u0301", "overflow", "total_hits", "a.total_hits"))
	}
	if g.brief {
		return pick(g, "", "", "", "x", "x", "y", "b_c", "c", "x_y", "*", "*", "x*", "*y", "x*y", "**", "a*b*c", "10.0.0.1", "z:z|z", "X", "a.b")
	}
	return pick(g, "", "", "", "x", "x", "y", "b_c", "c", "x_y", "*", "*", "x*", "*y", "x*y", "**", "a*b*c", "10.0.0.1", "z:z|z", "X",
		"a.b", "日本", "_", "192.168.1.1.5", "10", "true", "*_x",
		" ", "a b", "%d", "\"q\"", "back\\slash", "null", "~", "*.*.*.*", "_*", "*_", "x*x*x", strings.Repeat("long", 100), strings.Repeat("longer", 160))
}

// files returns one to three files of rules. Domains have tag in their names.
func (g *generator) files(tag string) []File {
	g.paths, g.domains, g.names = nil, nil, 0
	var files []File
	for i := range pick(g, 1, 1, 1, 2, 3) {
		var b strings.Builder
		g.limits, g.anchors = nil, nil
		// The reference reads files in no order, which wildcards depend on.
		g.tame = i > 0
		domain := fmt.Sprintf("d%s%s", tag, pick(g, "", "", ".e", "_f", ".10.0.0.1", ":p|q", " r", fmt.Sprint("n", i)))
		written := domain
		if g.wide && g.chance(10) {
			domain += g.plain(pick(g, "*", "é", "\t", "\x00", "\\", "\"", "\n", ".*", "  ", "_", ".."))
			written = fmt.Sprintf("%q", domain)
		}
		if g.flaw() {
			domain = pick(g, `""`, "~", "[1]", "{a: 1}", "1.5")
			written = domain
		}
		g.domains = append(g.domains, domain)
		g.line(&b, 0, "domain: "+written)
		if !g.flaw() {
			b.WriteString("descriptors:\n")
			g.level(&b, 1, nil, map[string]bool{})
		}
		if g.chance(3) {
			b.WriteString(pick(g, "---\nfoo: bar\n", "\n# end\n", "...\n", "domain: "+domain+"\n"))
		}
		text := b.String()
		if g.wide {
			text = g.dress(text)
		}
		files = append(files, File{Name: fmt.Sprintf("config.f%d.yaml", i), Content: []byte(text)})
	}
	return files
}

// dress writes a file in another way, now and then one that is wrong.
func (g *generator) dress(text string) string {
	switch g.IntN(16) {
	case 0:
		text = strings.ReplaceAll(text, "\n", "\r\n")
	case 1:
		text = "\ufeff" + text
	case 2:
		text = pick(g, "---\n", "%YAML 1.1\n---\n", "--- # rules\n", "\n\n# rules\n") + text
	case 3:
		text += pick(g, "...\n", "---\n", "---\n[1\n", "...\n---\ndomain: other\n", "# end", "\n\n", "---\n- x\n---\n")
	case 4:
		text = "\xff\xfe" + string(utf16le(text))
	}
	if !g.flaw() {
		return text
	}
	at := g.IntN(len(text))
	switch g.IntN(4) {
	case 0:
		return text[:at]
	case 1:
		return text[:at] + text[min(len(text), at+1+g.IntN(3)):]
	case 2:
		return text[:at] + pick(g, " ", "\n", "\t", "'", "\"", "&", "*", "%", "@", "`", "!", "|", ">", "? ", "- ", ": ", "#", "\x00", "\x7f", "\xff", "\u0085", "\ufeff", "{", "]") + text[at:]
	}
	lines := strings.SplitAfter(text, "\n")
	i, j := g.IntN(len(lines)), g.IntN(len(lines))
	lines[i], lines[j] = lines[j], lines[i]
	return strings.Join(lines, "")
}

func utf16le(text string) (b []byte) {
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

// line writes a line, or something like it that is refused.
func (g *generator) line(b *strings.Builder, depth int, text string) {
	pad := strings.Repeat("  ", depth)
	if g.flaw() {
		text = pick(g, "foo: bar", "Key: a", "1: 2", "true: x", "shadow_mode: 1.5", "replaces: [1, 2]", "name: [a]", "unit: {a: b}",
			"metadata: [x]", "metadata: 5", "key: 1.5", "value: 2001-01-01", "- x", "\ttab: 1", "a", "key: [", "key: 'x", "requests_per_unit: -1",
			"requests_per_unit: 99999999999", "unlimited: maybe", "domain: 5", "descriptors: 5", "rate_limit: 5", "rate_limit: []", "value: ~", "value: 1e3",
			"name: !!binary aGk=", "value: *none", "<<: {key: q}", "unit: 9223372036854775808", "key: {}", "descriptors: {key: a}", "descriptors: [[a]]",
			"shadow_mode: yes", "quota_mode: off", "detailed_metric: 1", "value: 0x1F", "value: 010", "value: 1_000", "value: 0b11", "key: .inf", "value: 12:30:45",
			"key: a: b", "? a\n: b", "key: |\n x", "key: >-\n    a", "!!map {}", "&a key: x", "key: @x", "key: `x`", "key: %x", "rate_limit: ~", "descriptors: ~", "descriptors: []",
			"replaces: ~", "replaces: []", "replaces: [{}]", "replaces: [{name: ~}]", "replaces: [{name: 5}]", "metadata: ~", "metadata: {}", "metadata: {a: !!binary /w==}", "unit: ~",
			"shadow_mode: ~", "key: ''", "rate_limit: {unit: hour}", "rate_limit: {}", "value: !!str 5", "value: !!int '5'", "value: !!float 5", "value: !foo x", "requests_per_unit: 0o7",
			"requests_per_unit: 1:30", "requests_per_unit: ~", "requests_per_unit: ''", "unit: 4", "unit: HOURLY", "name: 5", "name: yes", "domain: ~", "<<: *nothing", "<<: [{key: a}, {value: b}]", "<<: 5",
			"unlimited: 'true'", "requests_per_unit: '5'", "requests_per_unit: 5.0", "requests_per_unit: 1e2", "requests_per_unit: 010")
	}
	b.WriteString(pad + text + "\n")
}

func (g *generator) level(b *strings.Builder, depth int, path []pairs, used map[string]bool) {
	for range 1 + g.IntN(4) {
		p := pairs{g.key(), g.value()}
		if g.tame && strings.Contains(p.key+p.value, "*") {
			continue
		}
		word := p.key
		if p.value != "" {
			word += "_" + p.value
		}
		if used[word] && !g.flaw() {
			continue
		}
		used[word] = true
		g.descriptor(b, depth, append(path[:len(path):len(path)], p))
	}
	if len(used) == 0 {
		g.descriptor(b, depth, append(path[:len(path):len(path)], pairs{"a", ""}))
	}
}

func (g *generator) descriptor(b *strings.Builder, depth int, path []pairs) {
	p := path[len(path)-1]
	g.paths = append(g.paths, path)
	key := fmt.Sprintf("%q", p.key)
	if g.flaw() {
		key = `""`
	}
	b.WriteString(strings.Repeat("  ", depth-1) + "- key: " + key + "\n")
	if p.value != "" {
		v := fmt.Sprintf("%q", p.value)
		switch p.value {
		case "10", "true", "0x1F", "010", "1_000", "yes", "no", "on", "12:30:45":
			v = p.value
		case "null":
			if g.chance(30) {
				v = p.value
			}
		case "/api/v1/*", "x", "b_c", "a b", "a.b", "10.0.0.1", "日本":
			v = pick(g, v, p.value, "'"+p.value+"'", "!!str "+p.value)
		}
		g.line(b, depth, "value: "+v)
	}
	if g.chance(80) || depth >= 3 {
		g.limit(b, depth)
	}
	for _, flag := range []string{"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric"} {
		if g.chance(15) {
			g.line(b, depth, flag+": "+pick(g, "true", "true", "false", "yes", "True", "on"))
		}
	}
	if strings.Contains(p.key+p.value, "*") && g.chance(40) || g.flaw() {
		g.line(b, depth, "share_threshold: true")
	}
	if g.chance(25) {
		g.metadata(b, depth)
	}
	most := 4
	if g.atMost > 0 {
		most = g.atMost
	}
	if depth < most && (g.chance(40) && depth < 4 || g.chance(25)) {
		g.below(b, depth, path)
	}
}

// below writes the descriptors of a descriptor, or names some from before.
func (g *generator) below(b *strings.Builder, depth int, path []pairs) {
	if g.wide && len(g.anchors) > 0 && g.chance(15) {
		a := pick(g, g.anchors...)
		g.line(b, depth, "descriptors: *"+a.name)
		for _, p := range a.paths {
			g.paths = append(g.paths, append(path[:len(path):len(path)], p...))
		}
		return
	}
	head, name := "descriptors:", ""
	if g.wide && g.chance(20) {
		name = fmt.Sprint("l", g.names)
		g.names++
		head += " &" + name
	}
	g.line(b, depth, head)
	from := len(g.paths)
	g.level(b, depth+1, path, map[string]bool{})
	if name != "" && len(g.paths)-from < 20 {
		a := anchor{name: name}
		for _, p := range g.paths[from:] {
			a.paths = append(a.paths, p[len(path):])
		}
		g.anchors = append(g.anchors, a)
	}
}

// metadata has keys of its own, as the reference writes into rules what it merges.
func (g *generator) metadata(b *strings.Builder, depth int) {
	g.names++
	g.line(b, depth, "metadata:")
	g.line(b, depth+1, fmt.Sprintf("m%d: {n: %d, t: [1, a, {z: ~}], 5: %s}", g.names, g.names, pick(g, "yes", "1.5", "x", "~", "[]", "{}", "1e3", "0x10")))
	if g.wide && g.chance(40) {
		g.line(b, depth+1, pick(g, "", "{~: 1}", "5: x", "true: [y]", "1.5: {2: {3: ~}}", "'': ''", "big: 18446744073709551615", "neg: -9223372036854775808", "tiny: 1e-400",
			"date: 2001-01-01", "at: 2001-12-14t21:59:43.10-05:00", "bin: !!binary aGk=", "s: !!str 5", "q: \"\\x00\\u2028\"", "f: !!float 5", "o: 0o17", "long: |\n"+strings.Repeat("  ", depth+2)+"a\n",
			"fold: >-\n"+strings.Repeat("  ", depth+2)+"a\n"+strings.Repeat("  ", depth+2)+"b", "[a, b]: c", "deep: {a: {b: {c: {d: [[[1]]]}}}}", "unknown_key: 1", "dup: 1\n"+strings.Repeat("  ", depth+1)+"dup: 2"))
	}
	if g.chance(30) {
		g.line(b, depth+1, "same: "+fmt.Sprint(g.names))
	}
}

func (g *generator) limit(b *strings.Builder, depth int) {
	head := "rate_limit:"
	if g.wide && g.chance(10) {
		if len(g.limits) > 0 && g.chance(50) {
			g.line(b, depth, head+" *"+pick(g, g.limits...))
			return
		}
		name := fmt.Sprint("r", g.names)
		g.names++
		head += " &" + name
		defer func() { g.limits = append(g.limits, name) }()
	}
	g.line(b, depth, head)
	if g.wide && len(g.limits) > 0 && g.chance(20) {
		g.line(b, depth+1, "<<: *"+pick(g, g.limits...))
		if g.chance(50) {
			g.line(b, depth+1, "requests_per_unit: "+pick(g, "1", "4"))
		}
		return
	}
	if g.chance(8) {
		g.line(b, depth+1, "unlimited: true")
		if g.chance(30) || g.flaw() {
			g.line(b, depth+1, "unit: "+pick(g, "nonsense", "unknown", "''"))
		}
	} else {
		unit := pick(g, "second", "minute", "hour", "day", "week", "month", "year", "HOUR", "Day", "hour", "hour")
		if g.between && (unit == "year" || unit == "second") {
			unit = "month"
		}
		if g.flaw() {
			unit = pick(g, "unknown", "fortnight", "''", "hours", "~")
		}
		g.line(b, depth+1, "unit: "+unit)
		if !g.chance(3) {
			g.line(b, depth+1, "requests_per_unit: "+pick(g, "0", "0x10", "1_0", "0b11", "+4", "1", "2", "3", "5", "7", "10", "20", "100", "4294967295", "16777217"))
		}
	}
	name := ""
	if g.chance(40) {
		name = pick(g, "n1", "n2", "n3")
		g.line(b, depth+1, "name: "+name)
	}
	if g.chance(20) {
		other := pick(g, "n1", "n2", "n3", "none")
		if other != name || g.flaw() {
			g.line(b, depth+1, "replaces: [{name: "+other+"}]")
		}
	}
	if g.flaw() {
		g.line(b, depth+1, "replaces: [{name: ''}]")
	}
	if g.chance(5) {
		g.line(b, depth+1, "shadow_mode: true")
	}
}

// real turns a pattern into a value that it matches, mostly.
func (g *generator) real(pattern string) string {
	for strings.Contains(pattern, "*") && !g.chance(10) {
		pattern = strings.Replace(pattern, "*", pick(g, "", "1", "foo", "y", "x_y", "b", "10.0.0.9", "ü", "_", "a.b"), 1)
	}
	return pattern
}

// request asks for what rules name, or for something near it.
func (g *generator) request() *rlsv3.RateLimitRequest {
	req := &rlsv3.RateLimitRequest{Domain: pick(g, g.domains...)}
	if g.chance(2) {
		req.Domain = pick(g, "", "nobody", "no.body:x|10.1.1.1")
	}
	if g.chance(20) {
		req.HitsAddend = pick[uint32](g, 1, 2, 3, 5, 10, 1000, 4294967295)
	}
	n := pick(g, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 6, 40)
	if g.chance(1) {
		n = 0
	}
	for len(req.Descriptors) < n {
		if len(req.Descriptors) > 0 && g.chance(10) {
			req.Descriptors = append(req.Descriptors, pick(g, req.Descriptors...))
			continue
		}
		req.Descriptors = append(req.Descriptors, g.ask())
	}
	return req
}

func (g *generator) ask() *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	if len(g.paths) > 0 && !g.chance(1) {
		for _, p := range pick(g, g.paths...) {
			value := g.real(p.value)
			if p.value == "" {
				value = pick(g, "", "", "v", "w", "10.0.0.1", "b_c")
			}
			if g.chance(3) {
				value = g.value()
			}
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: g.real(p.key), Value: value})
		}
	}
	for _, e := range d.Entries {
		// (a, b_c) and (a_b, c) are one.
		if k, v, ok := strings.Cut(e.Value, "_"); ok && g.chance(10) {
			e.Key, e.Value = e.Key+"_"+k, v
		} else if k, v, ok := strings.Cut(e.Key, "_"); ok && g.chance(10) {
			e.Key, e.Value = k, v+"_"+e.Value
		}
	}
	switch {
	case g.chance(3) && len(d.Entries) > 0:
		d.Entries = d.Entries[:len(d.Entries)-1]
	case g.chance(3):
		for range pick(g, 1, 1, 1, 12) {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: g.key(), Value: g.value()})
		}
	case g.chance(2) && len(d.Entries) > 0:
		d.Entries[0].Key = ""
	}
	if g.chance(8) {
		d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: pick[uint32](g, 0, 1, 3, 5, 100, 4294967295), Unit: typev3.RateLimitUnit(1 + g.IntN(7))}
		if u := d.Limit.Unit; g.between && (u == typev3.RateLimitUnit_YEAR || u == typev3.RateLimitUnit_SECOND) {
			d.Limit.Unit = typev3.RateLimitUnit_MONTH
		}
	}
	if g.chance(15) {
		d.HitsAddend = wrapperspb.UInt64(pick[uint64](g, 0, 0, 0, 1, 2, 5, 100, 1<<32, 1<<62, 1<<63-1))
		if g.brief {
			// Series are floats, whose sums must not depend on the order.
			d.HitsAddend.Value = min(d.HitsAddend.Value, 1<<40)
		}
	}
	return d
}
