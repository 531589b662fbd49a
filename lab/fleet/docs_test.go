package fleet

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFaultsFileNamesFaults: faults.txt names every fault of TestFaultsOfTheStore, and no other.
// The rest of the file is checked by TestEvidencePage of lab/hostile.
func TestFaultsFileNamesFaults(t *testing.T) {
	text, err := os.ReadFile("faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	var named, tested []string
	for _, m := range regexp.MustCompile(`(?m)^\tlab/fleet\.TestFaultsOfTheStore/(\S+)$`).FindAllStringSubmatch(string(text), -1) {
		named = append(named, m[1])
	}
	for _, f := range faults {
		tested = append(tested, strings.ReplaceAll(f.name, " ", "_"))
	}
	slices.Sort(named)
	slices.Sort(tested)
	if !slices.Equal(named, tested) {
		t.Errorf("faults.txt names %q, and there are %q", named, tested)
	}
}
