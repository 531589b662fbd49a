package httpapi

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// boolean reads true or false.
func (r *reader) boolean() bool {
	if r.err != nil {
		return false
	}
	switch r.skipSpace() {
	case 't':
		r.literal("true")
		return r.err == nil
	case 'f':
		r.literal("false")
		return false
	}
	r.failKind("true or false")
	return false
}

// integer reads a whole number from least to most.
func (r *reader) integer(least, most int64) int64 {
	if r.err != nil {
		return 0
	}
	c := r.skipSpace()
	if c != '-' && (c < '0' || c > '9') {
		r.failKind("a number")
		return 0
	}
	from := r.i
	negative := c == '-'
	if negative {
		r.i++
	}
	digits := r.i
	var n uint64
	large := false
	for ; r.i < len(r.b) && r.b[r.i]-'0' < 10; r.i++ {
		d := uint64(r.b[r.i] - '0')
		large = large || n > (math.MaxInt64-d)/10
		n = n*10 + d
	}
	switch {
	case r.i == digits:
		r.failSyntax("a digit")
	case r.b[digits] == '0' && r.i > digits+1:
		r.i = digits + 1
		r.failSyntax("no digit after a leading zero")
	case r.i < len(r.b) && (r.b[r.i] == '.' || r.b[r.i]|0x20 == 'e'):
		r.i = from
		r.failValue("must be a whole number, written without a point or exponent")
	}
	v := int64(n)
	if negative {
		v = -v
	}
	if r.err == nil && (large || v < least || v > most) {
		r.failValue("must be from " + strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10))
	}
	if r.err != nil {
		return 0
	}
	return v
}

// readString reads a string of least to most bytes. It is valid as long as the body
// and r are.
func (r *reader) readString(least, most int) string {
	if r.err != nil {
		return ""
	}
	if r.skipSpace() != '"' {
		r.failKind("a string")
		return ""
	}
	b := r.readQuoted()
	switch {
	case r.err != nil:
		return ""
	case len(b) < least && len(b) == 0:
		r.failValue("must not be empty")
	case len(b) < least:
		r.failValue("must have at least " + strconv.Itoa(least) + " bytes")
	case len(b) > most:
		r.failValue("must have at most " + strconv.Itoa(most) + " bytes, has " + strconv.Itoa(len(b)))
	default:
		return aliasBytes(b)
	}
	return ""
}

// aliasBytes returns b as a string that shares its bytes.
func aliasBytes(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// readQuoted reads a string that is known to begin here. It is never nil.
func (r *reader) readQuoted() []byte {
	r.i++
	from, ascii := r.i, true
	for r.i < len(r.b) {
		switch c := r.b[r.i]; {
		case c == '"':
			s := r.b[from:r.i:r.i]
			if !ascii && !utf8.Valid(s) {
				r.i = from
				r.failValue("not valid UTF-8")
				return nil
			}
			r.i++
			return s
		case c == '\\':
			return r.unescape(from)
		case c < ' ':
			r.failSyntax("no control character within a string")
			return nil
		case c >= utf8.RuneSelf:
			ascii = false
			fallthrough
		default:
			r.i++
		}
	}
	r.failSyntax("the end of a string")
	return nil
}

// escapes are the characters that stand behind a backslash, but for u, and escaped those
// that they stand for.
const (
	escapes = "\"\\/bfnrt"
	escaped = "\"\\/\b\f\n\r\t"
)

// unescape reads the rest of a string that began at from and has escapes.
func (r *reader) unescape(from int) []byte {
	start := len(r.unescaped)
	out := append(r.unescaped, r.b[from:r.i]...)
	for r.i < len(r.b) {
		c := r.b[r.i]
		switch {
		case c == '"':
			r.i++
			r.unescaped = out
			s := out[start:len(out):len(out)]
			if !utf8.Valid(s) {
				r.failValue("not valid UTF-8")
				return nil
			}
			return s
		case c < ' ':
			r.failSyntax("no control character within a string")
			return nil
		case c != '\\':
			out = append(out, c)
			r.i++
			continue
		}
		r.i++
		if r.i == len(r.b) {
			break
		}
		switch at := strings.IndexByte(escapes, r.b[r.i]); {
		case at >= 0:
			out = append(out, escaped[at])
		case r.b[r.i] == 'u':
			r.i++
			u := r.readEscape()
			if r.err != nil {
				return nil
			}
			out = utf8.AppendRune(out, u)
			continue
		default:
			r.failSyntax("one of \"\\/bfnrtu")
			return nil
		}
		r.i++
	}
	r.failSyntax("the end of a string")
	return nil
}

// readEscape reads the digits of a \u escape, and the second half of a pair.
func (r *reader) readEscape() rune {
	u := r.readHex()
	if !utf16.IsSurrogate(u) || r.err != nil {
		return u
	}
	if len(r.b)-r.i >= 6 && r.b[r.i] == '\\' && r.b[r.i+1] == 'u' {
		r.i += 2
		if u = utf16.DecodeRune(u, r.readHex()); u != utf8.RuneError || r.err != nil {
			return u
		}
	}
	r.failValue("half a surrogate pair is not a character")
	return 0
}

func (r *reader) readHex() rune {
	var u rune
	for range 4 {
		var c byte
		if r.i < len(r.b) {
			c = r.b[r.i]
		}
		switch {
		case c >= '0' && c <= '9':
			u = u<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			u = u<<4 | rune(c|0x20-'a'+10)
		default:
			r.failSyntax("a hexadecimal digit")
			return 0
		}
		r.i++
	}
	return u
}
