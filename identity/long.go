package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxValue is how many bytes of a value are a key as they are.
const maxValue = 128

// digestPrefix begins the text that stands for a value that is no key itself.
const digestPrefix = "sha256:"

// Fits reports whether v can be a value as it is: of at most 128 bytes, and without
// control characters, which could mislead a log or a terminal. What stands for one that
// does not fit is 128 bits of its SHA-256.
func Fits(v string) bool {
	if len(v) > maxValue {
		return false
	}
	for i := 0; i < len(v); i++ {
		if c := v[i]; c < ' ' || c == 0x7f {
			return false
		} else if c >= utf8.RuneSelf {
			return utf8.ValidString(v[i:]) && !strings.ContainsFunc(v[i:], unicode.IsControl)
		}
	}
	return true
}

// appendLong appends what stands for a value that does not fit: 128 bits of
// its SHA-256, which is the same on every node.
func appendLong(b []byte, v []byte) []byte {
	h := sha256.Sum256(v)
	b = append(b, digestPrefix...)
	return hex.AppendEncode(b, h[:16])
}

// fitToKey returns v if it can be a key, or what stands for it.
func fitToKey(v string) string {
	if Fits(v) {
		return v
	}
	return string(appendLong(nil, []byte(v)))
}
