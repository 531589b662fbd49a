package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// page is the document with the tables.
const page = "docs/reference/generated/mutants.md"

// classics is how many classic mistakes there are. Patches with higher numbers
// are this code's own.
const classics = 30

// absent lists the classic mistakes, or the parts of them, that no patch can
// make because the code they would be made in does not exist.
var absent = []struct {
	number       int
	mistake, bit string
	why          string
}{
	{12, "the time comes from whoever asks", "sorted sets scored by gateways; Traefik trusts the clocks of its gateways",
		"no front end or store takes a time from a client; belongs to the shared store and its script"},
	{23, "the server evicts keys by its own policy", "Redis with maxmemory and allkeys-lru",
		"the embedded store evicts nothing that still matters, see 30; belongs to the shared store"},
}

// tables returns the document's tables of the classic and of the own mistakes.
// Mutants that were not tried keep the rows that they had.
func tables(all []mutant, results []result, had map[string]string) (classic, own string, err error) {
	var rows [2]strings.Builder
	for i, third := range []string{"Where it bit others", "What it breaks"} {
		fmt.Fprintf(&rows[i], "| No. | Mistake | %s | Patch | Killed by |\n|---|---|---|---|---|\n", third)
	}
	next := 0
	missing := func(upTo int) {
		for ; next < len(absent) && absent[next].number <= upTo; next++ {
			a := absent[next]
			row(&rows[0], a.number, a.mistake, a.bit, "none", a.why)
		}
	}
	for _, m := range all {
		table := &rows[1]
		if m.number() <= classics {
			missing(m.number())
			table = &rows[0]
		}
		i := slices.IndexFunc(results, func(r result) bool { return r.mutant.name == m.name })
		switch line, ok := had[m.name]; {
		case i >= 0:
			results[i].row(table)
		case ok:
			table.WriteString(line)
		default:
			return "", "", fmt.Errorf("%s has no row yet and was not tried: let -run match it too", m.name)
		}
	}
	missing(classics)
	return rows[0].String(), rows[1].String(), nil
}

// row writes the row of a mutant that was killed.
func (r result) row(b *strings.Builder) {
	m := r.mutant
	_, short, _ := strings.Cut(m.name, "-")
	third := m.breaks
	if m.number() <= classics {
		third = m.bit
	}
	var by []string
	for i, k := range m.kills {
		pkg := strings.TrimPrefix(k.pkg, "./")
		if pkg == "." {
			pkg = "weir"
		}
		by = append(by, fmt.Sprintf("`%s` in `%s`", r.by[i], pkg))
	}
	row(b, m.number(), m.mistake, third, fmt.Sprintf("[%s](../../../%s/%s.patch)", short, patches, m.name), strings.Join(by, ", "))
}

// patchLink finds the name of the patch in a row.
var patchLink = regexp.MustCompile(`/([^/]+)\.patch\)`)

// rowsOf returns the rows of the document by the names of their patches.
func rowsOf(text string) map[string]string {
	rows := make(map[string]string)
	for line := range strings.Lines(text) {
		if m := patchLink.FindStringSubmatch(line); m != nil && strings.HasPrefix(line, "| ") {
			rows[m[1]] = line
		}
	}
	return rows
}

func row(b *strings.Builder, number int, cells ...string) {
	fmt.Fprintf(b, "| %d |", number)
	for _, c := range cells {
		fmt.Fprintf(b, " %s |", strings.ReplaceAll(c, "|", `\|`))
	}
	b.WriteByte('\n')
}

// writePage puts the tables between their markers.
func writePage(root string, all []mutant, results []result) error {
	file := filepath.Join(root, page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	out := string(text)
	classic, own, err := tables(all, results, rowsOf(out))
	if err != nil {
		return err
	}
	for _, t := range []struct{ name, table string }{{"classic", classic}, {"own", own}} {
		begin, end := "<!-- begin "+t.name+" -->\n", "<!-- end "+t.name+" -->\n"
		before, rest, ok := strings.Cut(out, begin)
		_, after, found := strings.Cut(rest, end)
		if !ok || !found {
			return fmt.Errorf("%s has no lines %q and %q to write between", page, begin, end)
		}
		out = before + begin + t.table + end + after
	}
	return os.WriteFile(file, []byte(out), 0o644)
}
