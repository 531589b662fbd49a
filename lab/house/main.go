// House prints the figures of the house rules (docs/decisions/0013-the-house.md): a table of
// what is measured, what it is, and what it is to be.
//
//	make house
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
)

// A figure is one row of the table.
type figure struct {
	what string
	is   int
	most int // what it is to be at most
}

func main() {
	figures, err := measure()
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tis\tat most\t")
	for _, f := range figures {
		over := ""
		if f.is > f.most {
			over = fmt.Sprintf("%d above", f.is-f.most)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", f.what, f.is, f.most, over)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// measure measures all figures in the repository of the working directory.
func measure() ([]figure, error) {
	src, err := readSources(".")
	if err != nil {
		return nil, err
	}
	goDoc, err := lines("go", "doc", ".")
	if err != nil {
		return nil, err
	}
	help, err := lines("go", "run", "./cmd/weir", "serve", "--help")
	if err != nil {
		return nil, err
	}
	docs, err := words("README.md", "docs")
	if err != nil {
		return nil, err
	}
	readme, err := words("README.md")
	if err != nil {
		return nil, err
	}
	architecture, err := words("docs/ARCHITECTURE.md")
	if err != nil {
		return nil, err
	}
	public, exported := src.public()
	largest, methods := src.largestType()
	longest, length := src.longestFunction()
	return []figure{
		{"code lines of the product", src.codeLines(isProduct), 62000},
		{"public packages", public, 20},
		{"exported declarations in them", exported, 800},
		{"lines of go doc .", len(goDoc), 70},
		{"methods of the largest type, " + largest, methods, 25},
		{"code lines of the shared store and what it stands on", src.codeLines(isSharedStore), 4400},
		{"lines of the longest function, " + longest, length, 100},
		{"lines of weir serve --help", len(help), 150},
		{"words of README and docs", docs, 40000},
		{"words of README.md", readme, 600},
		{"words of ARCHITECTURE.md", architecture, 900},
		{"mutants", src.mutants(), 70},
	}, nil
}

// lines returns what a command prints, line by line.
func lines(name string, args ...string) ([]string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n"), nil
}
