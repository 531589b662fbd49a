package main

import (
	"fmt"
	"strings"
)

// page is the document that is written from the table.
const page = "docs/reference/generated/mutants.md"

// render returns the text of the page.
func render(all []mutant) string {
	var b strings.Builder
	b.WriteString("# Mutants\n\nA test that was never seen to fail proves nothing. `make mutants`, which is part of `make lab`, breaks the code in each of the ways below, one at a time, and fails unless a test notices. " +
		"`go run ./lab/mutants -write` makes this page from `lab/mutants/mutants.txt`; `lab/mutants/doc.go` says how an entry is written. A mutant that survives means a missing test.\n\n" +
		"| Package | Code | What would go wrong | Killed by |\n|---|---|---|---|\n")
	for _, m := range all {
		by := "`" + m.kill.pattern + "`"
		if m.kill.pkg != m.dir {
			by += " in `" + packageName(m.kill.pkg) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", packageName(m.dir), m.decl, m.harm, strings.ReplaceAll(by, "|", `\|`))
	}
	return b.String()
}

func packageName(dir string) string {
	if dir == "." {
		return "weir"
	}
	return strings.TrimPrefix(dir, "./")
}
