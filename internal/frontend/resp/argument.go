package resp

import (
	"strings"
	"unsafe"
)

// parseInt reads a decimal integer of 64 bits that may have a sign.
func parseInt(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		c -= '0'
		// Below 2^60 another digit cannot wrap round.
		if c > 9 || n >= 1<<60 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

// aliasBytes returns b as a string without copying it: it holds until the connection
// reads on.
func aliasBytes(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// maxRepeated is the longest part of an argument that an error repeats.
const maxRepeated = 128

// clipArgument returns an argument as an error repeats it.
func clipArgument(b []byte) string { return string(b[:min(len(b), maxRepeated)]) }

// argumentIs reports whether the i-th argument is a word, in any case.
func (c *command) argumentIs(i int, word string) bool {
	return strings.EqualFold(aliasBytes(c.argument(i)), word)
}
