package main

import (
	"fmt"
	"strconv"

	"github.com/weirlimit/weir/internal/figures"
)

// short writes a number in about three digits.
func short(n float64) string {
	switch {
	case n >= 1e9:
		return threeDigits(n/1e9) + " billion"
	case n >= 1e6:
		return threeDigits(n/1e6) + " million"
	case n >= 100 || n == float64(int64(n)):
		return figures.Thousands(int64(n + 0.5))
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
		return figures.Thousands(int64(n + 0.5))
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
