package report

import (
	"fmt"
	"os"
	"strings"
)

// Replace puts text between the markers of a section in a document and leaves
// the rest alone. The markers are the lines <!-- begin NAME --> and
// <!-- end NAME -->; each must be there once.
func Replace(document, section, text string) (string, error) {
	begin, end := "<!-- begin "+section+" -->\n", "<!-- end "+section+" -->"
	if strings.Count(document, begin) != 1 || strings.Count(document, end) != 1 {
		return "", fmt.Errorf("section %q needs the line %q and the line %q once each", section, strings.TrimSpace(begin), end)
	}
	head, rest, _ := strings.Cut(document, begin)
	old, tail, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("section %q ends before it begins", section)
	}
	if strings.Contains(old, "<!-- begin ") {
		return "", fmt.Errorf("section %q has another within it", section)
	}
	return head + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + tail, nil
}

// WriteSection replaces a section of the document in file.
func WriteSection(file, section, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	document, err := Replace(string(old), section, text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(document), 0o644)
}
