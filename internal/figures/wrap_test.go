package figures

import (
	"strings"
	"testing"
)

// Words stay whole and in order, and lines are as long as they may be.
func TestWrapKeepsWords(t *testing.T) {
	text := strings.Repeat("one two three ", 20) + strings.Repeat("x", 100) + " end"
	got := Wrap("    ", text)
	if strings.Join(strings.Fields(got), " ") != text {
		t.Errorf("other words: %q", got)
	}
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for i, line := range lines {
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "    ") || len(line) > wrapAt && len(words) > 1 {
			t.Errorf("line %q", line)
		}
		if i > 0 && len(lines[i-1])+1+len(words[0]) <= wrapAt {
			t.Errorf("%q fits behind %q", words[0], lines[i-1])
		}
	}
}
