package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// invocation finds a command line of weir in text: at the start of a line,
// after a prompt or a comment sign, or in backquotes.
var invocation = regexp.MustCompile("(?m)(?:^[ \t]*(?:[$#] *)?|`)(?:go run \\./cmd/weir|weir) +([^`\n]*)")

// Every command line in the README, the docs, the examples and the long help
// parses: nobody is told of a flag that there is not.
func TestCommandLinesInTheDocs(t *testing.T) {
	texts := map[string]string{"help": description, "help of ratelimit": (&ratelimitCmd{}).Help()}
	helps, err := fs.Glob(longHelp, "help/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range helps {
		text, err := longHelp.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	root := "../.."
	for _, dir := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err == nil && !d.IsDir() && (ext == ".md" || ext == ".yaml") {
				var data []byte
				data, err = os.ReadFile(path)
				texts[path] = string(data)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts["README.md"] = string(readme)

	found := 0
	for name, text := range texts {
		for _, m := range invocation.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
			args := words(m[1])
			// --help would end the process.
			if len(args) == 0 || !isSubcommand(args[0]) || slices.Contains(args, "--help") {
				continue
			}
			found++
			var c cli
			parser, err := newParser(&c, streams{out: new(bytes.Buffer), err: new(bytes.Buffer)})
			if err != nil {
				t.Fatal(err)
			}
			// A subcommand alone is its name, not a command line.
			if _, err := parser.Parse(flagsFirst(parser, args)); err != nil && len(args) > 1 {
				t.Errorf("%s: weir %s: %v", name, m[1], err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d command lines were found: does the pattern still fit?", found)
	}
}

func isSubcommand(word string) bool {
	var c cli
	parser, err := newParser(&c, streams{out: new(bytes.Buffer), err: new(bytes.Buffer)})
	if err != nil {
		panic(err)
	}
	for _, n := range parser.Model.Leaves(true) {
		if n.Name == word {
			return true
		}
	}
	return false
}

// words splits a command line as a shell does, as far as the docs need it: up
// to a comment, a pipe, a redirection or a second command.
func words(line string) []string {
	var out []string
	var w strings.Builder
	quote, in := rune(0), false
	flush := func() {
		if in {
			out = append(out, w.String())
		}
		w.Reset()
		in = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			w.WriteRune(r)
		case r == '"' || r == '\'':
			quote, in = r, true
		case r == ' ' || r == '\t':
			flush()
		case strings.ContainsRune("#|>&;)", r) && !in:
			return out
		case strings.ContainsRune("|>&;)", r):
			flush()
			return out
		default:
			w.WriteRune(r)
			in = true
		}
	}
	flush()
	return out
}
