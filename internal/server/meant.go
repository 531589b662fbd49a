package server

import (
	"fmt"

	"github.com/weirlimit/weir/internal/spell"
)

// meant returns ` (did you mean "x"?)` for the word of words that is nearest
// to what was written, or nothing when none is near.
func meant(written string, words []string) string {
	if word := spell.Nearest(written, words); word != "" {
		return fmt.Sprintf(" (did you mean %q?)", word)
	}
	return ""
}
