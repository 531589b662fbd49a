package identity

import (
	"strings"
	"unsafe"
)

// scratch holds the texts that are no parts of a request. It only grows: what was
// returned stays valid until Release.
type scratch struct{ buf []byte }

// keepAppended takes over what was appended to buf.
func (s *scratch) keepAppended(b []byte) string {
	from := len(s.buf)
	s.buf = b
	return viewAsText(b[from:])
}

// keepResult is keep for what may have failed.
func (s *scratch) keepResult(b []byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return s.keepAppended(b), nil
}

// viewAsText returns b as text. b must not change while the text is in use.
func viewAsText(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// fitToKey returns v, or what stands for it if it cannot be a key.
func (s *scratch) fitToKey(v string) string {
	if Fits(v) {
		return v
	}
	return s.keepAppended(appendLong(s.buf, []byte(v)))
}

// unescape decodes a name or value of a query.
func (s *scratch) unescape(v string) string {
	if !strings.ContainsAny(v, "%+") {
		return v
	}
	return s.decodeEscapes(v, '+')
}

// decodeEscapes decodes the escapes of v; space is the byte that stands for a space, if it is
// not the percent sign.
func (s *scratch) decodeEscapes(v string, space byte) string {
	b := s.buf
	for i := 0; i < len(v); i++ {
		ch, escaped := unescapeByte(v[i:])
		switch {
		case escaped:
			i += 2
		case v[i] == space && space != '%':
			ch = ' '
		default:
			ch = v[i]
		}
		b = append(b, ch)
	}
	return s.keepAppended(b)
}

// unescapeSegment decodes a segment of a canonical path, once.
func (s *scratch) unescapeSegment(v string) string {
	if strings.IndexByte(v, '%') < 0 {
		return v
	}
	return s.decodeEscapes(v, '%')
}

// decodeOnce decodes a value, and reports whether it is a credential, as it is
// written and as it is decoded, that a second decoding would not change.
func (s *scratch) decodeOnce(v string, form bool) (string, bool) {
	if !isCredential(v) {
		return "", false
	}
	if strings.IndexByte(v, '%') < 0 {
		return v, !form || strings.IndexByte(v, '+') < 0
	}
	decoded := s.unescape(v)
	return decoded, isCredential(decoded) && strings.IndexByte(decoded, '%') < 0
}
