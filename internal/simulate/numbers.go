package simulate

import (
	"fmt"
	"strconv"
)

// thousands writes n with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a number in about three digits.
func short(n float64) string {
	switch {
	case n >= 1e9:
		return threeDigits(n/1e9) + " billion"
	case n >= 1e6:
		return threeDigits(n/1e6) + " million"
	case n >= 100 || n == float64(int64(n)):
		return thousands(int64(n + 0.5))
	case n < 0.1:
		return "<0.1"
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// size writes bytes.
func size(n float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= u.size {
			return threeDigits(n/u.size) + " " + u.name
		}
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + " B"
}

// threeDigits writes a number from 1 on.
func threeDigits(n float64) string {
	if n >= 1000 {
		return thousands(int64(n + 0.5))
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

// percent writes a share.
func percent(share float64) string {
	if share > 0 && share < 0.001 {
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// count returns "1 node", "2 nodes".
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}
