package main

import (
	"fmt"
	"strconv"
	"strings"
)

// An amount is a number that may be written in thousands, millions or billions: 10k, 2.5M.
type amount int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *amount) UnmarshalText(text []byte) error {
	word, times := strings.ReplaceAll(strings.ReplaceAll(string(text), "_", ""), ",", ""), 1.0
	for suffix, by := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9} {
		if rest, ok := strings.CutSuffix(word, suffix); ok {
			word, times = rest, by
			break
		}
	}
	n, err := strconv.ParseFloat(word, 64)
	if n *= times; err != nil || !(n >= 0 && n <= 1e15) || n != float64(int64(n)) {
		return fmt.Errorf("%q is not a whole number such as 5000, 10k or 2.5M", text)
	}
	*a = amount(n)
	return nil
}
