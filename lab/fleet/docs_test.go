package fleet

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/sharedtest"
)

// Every test that docs/explanation/faults.md names exists, and every fault that is tested here is
// named there.
func TestFaultsPageNamesTests(t *testing.T) {
	data, err := os.ReadFile("../../docs/explanation/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	named := regexp.MustCompile("`([a-z/]+)\\.(Test\\w+)(/[^`]+)?`").FindAllStringSubmatch(page, -1)
	if len(named) < 30 {
		t.Fatalf("only %d tests are named: does the pattern still fit?", len(named))
	}
	const table = "TestFaultsOfTheStore"
	shared := sharedtest.Names()
	subtests := map[string]bool{}
	for _, f := range faults {
		subtests["/"+strings.ReplaceAll(f.name, " ", "_")] = true
	}
	seen := map[string]bool{}
	for _, m := range named {
		folder, name, sub := m[1], m[2], m[3]
		if !slices.Contains(testsIn(t, folder), name) {
			t.Errorf("%s has no %s", folder, name)
		}
		seen[name+sub] = true
		switch {
		case sub == "" || name == table && subtests[sub]:
		case name == "TestShared" && slices.Contains(shared, sub[1:]):
		default:
			t.Errorf("%s has no subtest %s", name, sub)
		}
	}
	for sub := range subtests {
		if !seen[table+sub] {
			t.Errorf("the page does not name %s%s", table, sub)
		}
	}
}

// Every row of a table of docs/explanation/faults.md that has a column for tests names one in it.
func TestFaultsPageRowsNameTheirTests(t *testing.T) {
	data, err := os.ReadFile("../../docs/explanation/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	test := regexp.MustCompile("`[a-z/]+\\.Test\\w+(/[^`]+)?`")
	isInTable, rows := false, 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			isInTable = false
		case strings.HasSuffix(line, "| tests |"):
			isInTable = true
		case isInTable && !strings.HasPrefix(line, "|---"):
			rows++
			cells := strings.Split(strings.Trim(line, "|"), " | ")
			if !test.MatchString(cells[len(cells)-1]) {
				t.Errorf("a row names no test: %s", line)
			}
		}
	}
	if rows < 40 {
		t.Errorf("only %d rows were found: does the pattern still fit?", rows)
	}
}

// testsIn returns the names of the tests of a package.
func testsIn(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}
