package rows

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CleanText returns a word as databases take it.
func CleanText(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}

// CleanKey returns a key as databases take it. Different keys stay different.
func CleanKey(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		if len(s) <= maxText {
			return s
		}
		return CleanText(s[:maxText-17]) + "…" + strconv.FormatUint(stableHash(s), 36)
	}
	return CleanText(strconv.QuoteToASCII(s))
}

// wordBit returns a word's bit in a sketch of 64.
func wordBit(word string) int64 {
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

const (
	// maxFigure bounds a number of an event, so that sums of a quarter of a million of
	// the largest do not overflow.
	maxFigure = 1 << 45
	// maxText bounds a word of an event, in bytes. Keys in plain are at most 116.
	maxText = 256
)

// BoundUint bounds a number of an event.
func BoundUint(n uint64) int64 { return int64(min(n, maxFigure)) }

// BoundInt is BoundUint of a number with a sign, which is at least zero then.
func BoundInt(n int64) int64 { return min(max(n, 0), maxFigure) }

// CountTrue returns one for true.
func CountTrue(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// DivideUp divides, and rounds up.
func DivideUp(a, b int64) int64 { return (a + b - 1) / b }
