package main

import (
	goflag "flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

//go:generate go test . -run ^TestReference$ -update

var update = goflag.Bool("update", false, "rewrite docs/reference/generated/commands.md")

// exitStatus finds what a help says of exit statuses: the sentence, and what follows in its paragraph.
var exitStatus = regexp.MustCompile(`(?s)Exit\s+status:?\s+(0.*?)(?:\n\n|$)`)

// TestReference: docs/reference/generated/commands.md is made of the help, which says of every
// command what its exit statuses mean.
func TestReference(t *testing.T) {
	const path = "../../docs/reference/generated/commands.md"
	parser, err := newParser(new(cli), streams{os.Stdin, os.Stdout, os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Commands and their exit statuses\n\nMade by `make docs` of the help. In general 0 is yes or done, 1 is no (refused, not valid), and 2 is an error. " +
		"A command line that cannot be read is 2.\n\n| command | does | exit status |\n|---|---|---|\n")
	for _, n := range parser.Model.Leaves(true) {
		m := exitStatus.FindStringSubmatch(n.Detail)
		if m == nil {
			t.Errorf("weir %s --help does not say what its exit statuses mean", n.Name)
			continue
		}
		fmt.Fprintf(&b, "| `weir %s` | %s | %s |\n", n.Name, n.Help, strings.Join(strings.Fields(m[1]), " "))
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s is stale (%v): make docs", path, err)
	}
}
