package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// page is the document with the tables.
const page = "docs/mutants.md"

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
func tables(results []result) (classic, own string) {
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
	for _, r := range results {
		m := r.mutant
		patch := fmt.Sprintf("[%s](../%s/%s.patch)", m.name[3:], patches, m.name)
		var by []string
		for i, k := range m.kills {
			pkg := strings.TrimPrefix(k.pkg, "./")
			if pkg == "." {
				pkg = "weir"
			}
			by = append(by, fmt.Sprintf("`%s` in `%s`", r.by[i], pkg))
		}
		if m.number() <= classics {
			missing(m.number())
			row(&rows[0], m.number(), m.mistake, m.bit, patch, strings.Join(by, ", "))
		} else {
			row(&rows[1], m.number(), m.mistake, m.breaks, patch, strings.Join(by, ", "))
		}
	}
	missing(classics)
	return rows[0].String(), rows[1].String()
}

func row(b *strings.Builder, number int, cells ...string) {
	fmt.Fprintf(b, "| %d |", number)
	for _, c := range cells {
		fmt.Fprintf(b, " %s |", strings.ReplaceAll(c, "|", `\|`))
	}
	b.WriteByte('\n')
}

// writePage puts the tables between their markers.
func writePage(root string, results []result) error {
	file := filepath.Join(root, page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	classic, own := tables(results)
	out := string(text)
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
