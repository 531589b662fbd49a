package server

import "fmt"

// meant returns ` (did you mean "x"?)` for the word of words that is nearest
// to what was written, or nothing when none is near.
func meant(written string, words []string) string {
	best, at := 3, ""
	for _, w := range words {
		if d := distance(written, w); d < best && d < len(w) {
			best, at = d, w
		}
	}
	if at == "" || at == written {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", at)
}

// distance is the number of single-letter edits between a and b, a swap of
// two neighbours counted as one. Words over 64 bytes are told apart by the
// first 64.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	var before, last, row [65]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
