package pauses

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// Caps on what another's answer may make us read.
const (
	maxField   = 8 << 10 // bytes of all lines of one field
	maxMembers = 64
)

// Told returns how long an answer asks to stay away, and false if it does not.
// now is the time of this node.
//
// It is Retry-After on a 429 or 503, and else the longest t of a limit in
// RateLimit that has nothing left, on any answer that is not from a cache; or
// RateLimit-Reset where RateLimit-Remaining is 0, which earlier drafts had in its
// place.
//
// Source: RFC 9110 §10.2.3, draft-ietf-httpapi-ratelimit-headers-11 and -06.
func Told(res *http.Response, now time.Time) (time.Duration, bool) {
	h := res.Header
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		if wait, ok := retryAfter(h.Get("Retry-After"), h.Get("Date"), now); ok {
			return wait, wait > 0
		}
	}
	if age := h.Get("Age"); age != "" && strings.Trim(age, "0") != "" {
		return 0, false
	}
	if wait, ok := exhausted(h["Ratelimit"]); ok {
		return wait, true
	}
	left, known := digits(h.Get("RateLimit-Remaining"))
	reset, timed := digits(h.Get("RateLimit-Reset"))
	if !known || !timed || left > 0 || reset == 0 {
		return 0, false
	}
	return seconds(reset), true
}

// retryAfter reads a Retry-After. A date counts from date, the answer's own,
// for its clock may be another than ours.
func retryAfter(v, date string, now time.Time) (time.Duration, bool) {
	if sec, ok := digits(v); ok {
		return seconds(sec), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	return max(at.Sub(now), 0), true
}

// digits reads an integer without a sign; one that is too large reads as the
// largest.
func digits(s string) (n int64, ok bool) {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n = n*10 + int64(s[i]-'0'); n > largest {
			n = largest
		}
	}
	return n, s != ""
}

// largest is the largest integer of a structured field, RFC 9651 §3.3.1.
const largest = 999_999_999_999_999

// seconds returns n seconds, cut to what a duration holds.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(1<<63-1)/int64(time.Second))) * time.Second
}

// exhausted returns the longest wait that the lines of a RateLimit field state
// for limits that have nothing left, and false if they state none. A field that
// is malformed says nothing.
func exhausted(lines []string) (time.Duration, bool) {
	size := 0
	for _, l := range lines {
		size += len(l) + 1
	}
	if size == 0 || size > maxField {
		return 0, false
	}
	p := parser{strings.Join(lines, ",")}
	longest, found := int64(0), false
	for members := 0; ; members++ {
		p.space()
		if p.s == "" {
			break
		}
		if members == maxMembers {
			return 0, false
		}
		if p.s[0] != '"' || !p.quoted() {
			return 0, false // the draft: every member is a String
		}
		left, wait, ok := p.params()
		if !ok || left < 0 || wait < 0 {
			return 0, false
		}
		if left == 0 && wait > 0 {
			longest, found = max(longest, wait), true
		}
		p.spaceTab()
		if p.s == "" {
			break
		}
		if !p.skip(',') {
			return 0, false
		}
		if p.spaceTab(); p.s == "" {
			return 0, false // a comma at the end
		}
	}
	return seconds(longest), found
}

// parser reads a structured field from the front.
// Source: RFC 9651 §4.2.
type parser struct{ s string }

func (p *parser) skip(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *parser) space()    { p.s = strings.TrimLeft(p.s, " ") }
func (p *parser) spaceTab() { p.s = strings.TrimLeft(p.s, " \t") }

// while cuts off what is of class in.
func (p *parser) while(in func(byte) bool) (n int) {
	for n < len(p.s) && in(p.s[n]) {
		n++
	}
	p.s = p.s[n:]
	return n
}

// params reads the parameters of a member of RateLimit: r, negative if there is
// none, and t, 0 if there is none; negative if they are no integers either. The
// last of a name counts.
func (p *parser) params() (r, t int64, ok bool) {
	r = -1
	for p.skip(';') {
		p.space()
		if p.s == "" || !isLower(p.s[0]) && p.s[0] != '*' {
			return 0, 0, false
		}
		from := p.s
		key := from[:p.while(isKey)]
		n, kind := int64(0), notNumber
		if p.skip('=') {
			if n, kind = p.bare(); kind == malformed {
				return 0, 0, false
			}
		}
		if kind != integer {
			n = -1
		}
		switch key {
		case "r":
			r = n
		case "t":
			t = n
		}
	}
	return r, t, true
}

// What a bare item is.
type kind uint8

const (
	malformed kind = iota
	integer
	notNumber
)

// bare reads a bare item, and its value if it is an Integer.
func (p *parser) bare() (int64, kind) {
	if p.s == "" {
		return 0, malformed
	}
	ok := false
	switch c := p.s[0]; {
	case isDigit(c) || c == '-':
		return p.number()
	case c == '"':
		ok = p.quoted()
	case isAlpha(c) || c == '*':
		ok = p.while(isToken) > 0
	case c == ':':
		ok = p.bytes()
	case c == '?':
		ok = len(p.s) > 1 && (p.s[1] == '0' || p.s[1] == '1')
		if ok {
			p.s = p.s[2:]
		}
	case c == '@':
		p.s = p.s[1:]
		_, k := p.number()
		ok = k == integer
	case c == '%':
		ok = p.display()
	}
	if !ok {
		return 0, malformed
	}
	return 0, notNumber
}

// number reads an Integer or a Decimal.
func (p *parser) number() (int64, kind) {
	sign := int64(1)
	if p.skip('-') {
		sign = -1
	}
	from := p.s
	n := p.while(isDigit)
	if n == 0 || n > 15 {
		return 0, malformed
	}
	if p.skip('.') {
		if frac := p.while(isDigit); n > 12 || frac == 0 || frac > 3 {
			return 0, malformed
		}
		return 0, notNumber
	}
	v, _ := digits(from[:n])
	return sign * v, integer
}

// quoted reads a String.
func (p *parser) quoted() bool {
	for i := 1; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.s = p.s[i+1:]
			return true
		case c == '\\':
			if i++; i == len(p.s) || p.s[i] != '"' && p.s[i] != '\\' {
				return false
			}
		case c < ' ' || c > '~':
			return false
		}
	}
	return false
}

// bytes reads a Byte Sequence, padded or not.
func (p *parser) bytes() bool {
	p.s = p.s[1:]
	from := p.s
	n := p.while(isBase64)
	_, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(from[:n], "="))
	return err == nil && p.skip(':')
}

// display reads a Display String.
func (p *parser) display() bool {
	if len(p.s) < 2 || p.s[1] != '"' {
		return false
	}
	var text []byte
	for i := 2; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.s = p.s[i+1:]
			return utf8.Valid(text)
		case c == '%':
			if i+2 >= len(p.s) || !isHex(p.s[i+1]) || !isHex(p.s[i+2]) {
				return false
			}
			text = append(text, unhex(p.s[i+1])<<4|unhex(p.s[i+2]))
			i += 2
		case c < ' ' || c > '~':
			return false
		default:
			text = append(text, c)
		}
	}
	return false
}

func unhex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c - 'a' + 10
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }
func isHex(c byte) bool   { return isDigit(c) || 'a' <= c && c <= 'f' }
func isKey(c byte) bool   { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 }
func isBase64(c byte) bool {
	return isAlpha(c) || isDigit(c) || strings.IndexByte("+/=", c) >= 0
}
func isToken(c byte) bool {
	return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
