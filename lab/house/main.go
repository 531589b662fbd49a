// House prints the figures of the house rules (docs/decisions/0013-the-house.md): a table of
// what is measured, what it is, and what it is to be.
//
//	make house
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	direct, err := requirements()
	if err != nil {
		return nil, err
	}
	printed := map[string][]string{}
	for _, args := range [][]string{{"go", "doc", "."}, {"go", "run", "./cmd/weir", "--help"}, {"go", "run", "./cmd/weir", "serve", "--help"}} {
		if printed[args[len(args)-2]+" "+args[len(args)-1]], err = lines(args[0], args[1:]...); err != nil {
			return nil, err
		}
	}
	counted := map[string]int{}
	for _, page := range []string{"README.md", "docs/ARCHITECTURE.md", "docs"} {
		if counted[page], err = words(page); err != nil {
			return nil, err
		}
	}
	size, err := binarySize()
	if err != nil {
		return nil, err
	}
	public, exported := src.public()
	largest, methods := src.largestType()
	longest, length := src.longestFunction()
	serve := printed["serve --help"]
	return []figure{
		{"code lines of the product", src.codeLines(isProduct), 78500},
		{"types that implement weir.Rules", src.matchers(), 4},
		{"structs that hold a domain, a rule and a limit", src.limitNames(), 4},
		{"places that fill an op's answer by its fields", src.filledAnswers(), 0},
		{"packages with more than 40 files", src.largePackages(), 0},
		{"public packages", public, 21},
		{"exported declarations in them", exported, 740},
		{"of them functions with a type of internal/ in their signature", src.unusable(), 0},
		{"lines of go doc .", len(printed["doc ."]), 75},
		{"functions with a name of six letters or fewer, percent", src.shortNames(), 40},
		{"methods of the largest type, " + largest, methods, 25},
		{"code lines of the shared store and what it stands on", src.codeLines(isSharedStore), 4400},
		{"lines of the longest function, " + longest, length, 100},
		{"direct requirements of go.mod", direct, maxRequirements},
		{"KiB of the stripped binary", size, maxBinary},
		{"subcommands in weir --help", subcommands(printed["./cmd/weir --help"]), 18},
		{"flags of weir serve", flags(serve), 40},
		{"lines of weir serve --help", len(serve), 150},
		{"words of README and docs", counted["docs"] + counted["README.md"], 40000},
		{"words of README.md", counted["README.md"], 600},
		{"words of ARCHITECTURE.md", counted["docs/ARCHITECTURE.md"], 900},
		{"mutants", src.mutants(), 70},
	}, nil
}

// What the commit 1e66e48c has: three requirements may come for what they replace, and the
// binary may not grow.
const (
	maxRequirements = 56 + 2
	maxBinary       = 59320
)

// binarySize returns the size of the stripped command in KiB.
func binarySize() (int, error) {
	dir, err := os.MkdirTemp("", "house")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "weir")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build: %w: %s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return int(info.Size() >> 10), nil
}

var (
	subcommand = regexp.MustCompile(`^  [a-z]+ {2,}[A-Z]`)
	flag       = regexp.MustCompile(`--[a-z][a-z-]*`)
)

// subcommands returns how many subcommands the help names: a line each, and those of the
// line of others.
func subcommands(help []string) (n int) {
	for _, line := range help {
		if others, ok := strings.CutPrefix(line, "Others: "); ok {
			names, _, _ := strings.Cut(others, ".")
			n += strings.Count(names, ",") + 1
		} else if subcommand.MatchString(line) {
			n++
		}
	}
	return n
}

// flags returns how many flags the help names, beneath its line Flags.
func flags(help []string) (n int) {
	for _, line := range help[slices.Index(help, "Flags:")+1:] {
		line, _, _ = strings.Cut(strings.TrimLeft(line, " "), "  ") // what a flag is for may name another
		n += len(flag.FindAllString(line, -1))
	}
	return n
}

// lines returns what a command prints, line by line.
func lines(name string, args ...string) ([]string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n"), nil
}
