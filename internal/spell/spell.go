// Package spell finds what a misspelt word was meant to be.
package spell

import (
	"fmt"
	"strings"
)

// Hint returns ` (did you mean "x"?)` for the word of known that is nearest to word, or
// "" when none is near.
func Hint(word string, known []string) string {
	if meant := Nearest(word, known); meant != "" {
		return fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return ""
}

// Cure returns what to do about an unknown word: `did you mean "x"?`, or `choose one of`
// and all that are known when none is near.
func Cure(word string, known []string) string {
	if meant := Nearest(word, known); meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	return "choose one of " + strings.Join(known, ", ")
}

// Unknown returns the error for a word that is none of those known, a parameter for one:
// it names the nearest, or all when none is near.
func Unknown(what, word string, known []string) error {
	if hint := Hint(word, known); hint != "" {
		return fmt.Errorf("unknown %s %q%s", what, word, hint)
	}
	return fmt.Errorf("unknown %s %q: there are %s", what, word, strings.Join(known, ", "))
}

// Nearest returns the word of known that is nearest to word, or "" when none is
// near: one letter may be wrong, and one more for each five of the word. Of words
// that are equally near it is the first.
func Nearest(word string, known []string) string {
	best, at := 2+len(word)/5, ""
	for _, k := range known {
		if d := Distance(word, k); d < best && d < len(k) && d > 0 {
			best, at = d, k
		}
	}
	return at
}

// Distance is the number of letters to insert, delete, change or swap to make b
// of a (Damerau-Levenshtein, optimal string alignment). Only the first 64 bytes
// of a word count.
func Distance(a, b string) int {
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
