package analytics

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// text returns a word as databases take it.
func text(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}

// keyText returns a key as databases take it. Different keys stay different.
func keyText(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		if len(s) <= maxText {
			return s
		}
		return text(s[:maxText-17]) + "…" + strconv.FormatUint(stableHash(s), 36)
	}
	return text(strconv.QuoteToASCII(s))
}

// bit returns a word's bit in a sketch of 64.
func bit(word string) int64 {
	if word == "" {
		return 0
	}
	return int64(uint64(1) << (stableHash(word) >> 58))
}

// estimate returns how many different words set the bits of a sketch.
//
// Source: linear counting, Whang, Vander-Zanden and Taylor, 1990.
func estimate(sketch int64) int64 {
	free := 64 - bits.OnesCount64(uint64(sketch))
	if free == 64 {
		return 0
	}
	return int64(math.Round(-64 * math.Log(math.Max(float64(free), 0.5)/64)))
}
