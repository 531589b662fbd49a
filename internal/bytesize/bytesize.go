// Package bytesize reads and writes numbers of bytes with a unit: "64KiB", "1.5MB".
package bytesize

import (
	"strconv"
	"strings"
)

var units = []struct {
	name string
	size int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// CutUnit returns the number in front of a unit, in any case, and how many bytes the unit
// has: 1 where there is none.
func CutUnit(text string) (number string, size int64) {
	text = strings.TrimSpace(text)
	for _, u := range units {
		if n := len(text) - len(u.name); n >= 0 && strings.EqualFold(text[n:], u.name) {
			return strings.TrimSpace(text[:n]), u.size
		}
	}
	return text, 1
}

// Format writes n in the largest binary unit that divides it.
func Format(n int64) string {
	for _, u := range units[:3] {
		if n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
