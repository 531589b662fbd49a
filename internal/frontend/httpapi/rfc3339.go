package httpapi

import (
	"strings"
	"time"
)

// isRFC3339 reports whether s is a date and time as RFC 3339 §5.6 writes it,
// on a day that exists. A leap second is accepted wherever one could be.
func isRFC3339(s string) bool {
	var upper [maxTimestamp]byte
	b := upper[:copy(upper[:], s)]
	for i, c := range b {
		if c == 't' || c == 'z' {
			b[i] = c - ('a' - 'A')
		}
	}
	// Package time knows no leap seconds, and takes a comma in the fraction.
	if len(b) > len("2006-01-02T15:04:05") && string(b[17:19]) == "60" {
		copy(b[17:], "59")
	}
	return len(s) <= maxTimestamp && !strings.Contains(s, ",") && new(time.Time).UnmarshalText(b) == nil
}
