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

	"github.com/weirlimit/weir/internal/config"
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
			args := splitWords(m[1])
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

// splitWords splits a command line as a shell does, as far as the docs need it: up
// to a comment, a pipe, a redirection or a second command.
func splitWords(line string) []string {
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

// codeWords are words of the code, which texts for people do without, but for those about the
// code.
var (
	codeWords = regexp.MustCompile(`(?i)theorem|decider|decisive|tally|tallies`)
	aboutCode = []string{"GLOSSARY.md", "ARCHITECTURE.md", "mutants.md", "fuzz-targets.md", "evidence.md"}
)

// TestTextsNameWhatPeopleKnow: pages, files to deploy and what the program says name settings
// without a flag by their key or variable, and use no word of the code.
func TestTextsNameWhatPeopleKnow(t *testing.T) {
	var gone []string
	for _, s := range config.Settings() {
		if name, ok := strings.CutPrefix(s.Env(), "WEIR_"); ok && s.Flag == "" {
			gone = append(gone, strings.ToLower(strings.ReplaceAll(name, "_", "-")))
		}
	}
	pattern := regexp.MustCompile(`--(?:` + strings.Join(gone, "|") + `)(?:[^a-z0-9-]|$)`)
	texts := 0
	for _, dir := range []string{"README.md", "docs", "deploy", "examples", "cmd", "internal", "identity", "credentials", "client"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "dist" || d.Name() == "testdata" || d.Name() == "decisions"):
				return fs.SkipDir
			case d.IsDir(), strings.HasSuffix(path, "_test.go"), !slices.Contains([]string{".go", ".md", ".txt", ".yaml", ".json", ".ts", ".svelte", ".service"}, filepath.Ext(path)):
				return nil
			}
			text, err := os.ReadFile(path)
			texts++
			if found := pattern.Find(text); found != nil {
				t.Errorf("%s names %s, which is no flag any more", path, found)
			}
			if found := codeWords.Find(text); found != nil && filepath.Ext(path) != ".go" && !slices.Contains(aboutCode, d.Name()) {
				t.Errorf("%s has the word %q", path, found)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if texts < 100 {
		t.Errorf("only %d files were read", texts)
	}
}
