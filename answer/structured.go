package answer

import "strconv"

// maxInteger is the largest integer of a structured field, RFC 9651 §3.3.1.
const maxInteger = 999_999_999_999_999

func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}

// appendNumber appends an integer behind its name.
func appendNumber(b []byte, name string, n int64) []byte { return appendInteger(append(b, name...), n) }

// maxName is how many bytes of a limit's name are told.
const maxName = 128

// appendString appends name as a structured field String: quoted, escaped, and
// with an underscore for whatever is not printable ASCII, so that no name can
// end the field. The result is a JSON string too.
func appendString(b []byte, name string) []byte {
	return append(appendText(append(b, '"'), name), '"')
}

// appendText is appendString without the quotes.
func appendText(b []byte, name string) []byte {
	if isUnescaped(name) {
		return append(b, name...)
	}
	for i, c := range name {
		switch {
		case i >= maxName:
			return b
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c > '~':
			b = append(b, '_')
		default:
			b = append(b, byte(c))
		}
	}
	return b
}

// unescapedBytes are those that appendText tells as they are.
var unescapedBytes = func() (t [256]bool) {
	for c := ' '; c <= '~'; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// isUnescaped reports whether all of name is told as it is, as of most.
func isUnescaped(name string) bool {
	for i := range len(name) {
		if !unescapedBytes[name[i]] {
			return false
		}
	}
	return len(name) <= maxName
}
