// Package terminaltest has text that a terminal obeys, and finds what is left of it.
package terminaltest

import (
	"unicode"
	"unicode/utf8"
)

// Hostile holds what a terminal obeys: it writes the clipboard, sets the title,
// clears the screen, goes back in the line, turns the direction of text, and begins
// a line that looks like one of the program's.
const Hostile = "a\x1b]52;c;ZXZpbA==\x07b\x1b]0;title\x1b\\c\x1b[2Jd\re\x9bf\u009bg\u202eh\u2066i\x7fj\nFORGED line"

// FindObeyed returns the first character of text that a terminal would obey.
func FindObeyed(text string) (rune, bool) {
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return r, true
		}
	}
	return utf8.RuneError, !utf8.ValidString(text)
}
