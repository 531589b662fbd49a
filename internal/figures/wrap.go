package figures

import "strings"

// wrapAt is how many columns a line has at most: a terminal has 80, and help can be indented
// by two more.
const wrapAt = 78

// Wrap returns the words of a text in lines for a terminal, each behind an indent.
func Wrap(indent, text string) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && len(line)+1+len(word) > wrapAt {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
