package words

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

// What is quoted is read as it was, and begins no line, whatever characters it has: in lines
// for a file, and in the comments beside them.
func TestFamilyQuotedIsOneWord(t *testing.T) {
	for r := rune(0); r <= 0x10ffff; r++ {
		switch {
		case r == 0x3000:
			r = 0xd700
		case r == 0xd800:
			r = 0xe000
		case r == 0xe100:
			r = 0xfe00
		case r == 0x10100:
			r = 0x10ff00
		}
		s := string(r) + "a" + string(r) + "deny: [b]"
		var got struct{ Deny []string }
		text := "# " + quote(s) + "\ndeny: [" + quote(s) + "]\n"
		if err := yaml.Unmarshal([]byte(text), &got); err != nil || len(got.Deny) != 1 || got.Deny[0] != s {
			t.Fatalf("%U: %q: %v %q", r, text, err, got.Deny)
		}
	}
}
