package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one patch.
type mutant struct {
	name    string // 01-refused-logged
	mistake string
	bit     string
	breaks  string
	kills   []kill
	hunks   []hunk
}

// kill is a set of tests that must notice.
type kill struct{ pkg, pattern string }

func (k kill) String() string { return k.pkg + " " + k.pattern }

// hunk is one place that is changed. Both texts are whole lines.
type hunk struct {
	file, old, new string
}

const patches = "lab/mutants/testdata"

// load reads every patch of the module at root, in order of number.
func load(root string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, patches, "*.patch"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no patches in %s", filepath.Join(root, patches))
	}
	all := make([]mutant, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		if all[i], err = parse(name, string(text)); err != nil {
			return nil, fmt.Errorf("%s/%s.patch: %w", patches, name, err)
		}
	}
	slices.SortStableFunc(all, func(a, b mutant) int { return cmp.Compare(a.number(), b.number()) })
	return all, nil
}

// number returns the number of the mistake that m makes.
func (m mutant) number() int {
	digits, _, _ := strings.Cut(m.name, "-")
	n, _ := strconv.Atoi(digits) // parse has seen to it
	return n
}

func parse(name, text string) (mutant, error) {
	m := mutant{name: name}
	digits, short, _ := strings.Cut(name, "-")
	if len(digits) < 2 || short == "" {
		return m, fmt.Errorf("name is not NN-short-name")
	}
	if _, err := strconv.Atoi(digits); err != nil {
		return m, fmt.Errorf("name does not begin with a number: %w", err)
	}
	header, diff, found := strings.Cut(text, "\n\n")
	if !found {
		return m, fmt.Errorf("no empty line between header and diff")
	}
	for line := range strings.Lines(header) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Mistake":
			m.mistake = value
		case "Bit":
			m.bit = value
		case "Breaks":
			m.breaks = value
		case "Kill":
			pkg, pattern, _ := strings.Cut(value, " ")
			if pattern == "" || strings.Contains(pattern, " ") {
				return m, fmt.Errorf("%q: want a package and a pattern", value)
			}
			m.kills = append(m.kills, kill{pkg, pattern})
		default:
			return m, fmt.Errorf("unknown header line %q", line)
		}
	}
	if m.mistake == "" || m.breaks == "" || m.kills == nil {
		return m, fmt.Errorf("header needs Mistake, Breaks and Kill")
	}
	return m, m.parseDiff(diff)
}

func (m *mutant) parseDiff(diff string) error {
	file, open := "", false
	for line := range strings.Lines(diff) {
		last := len(m.hunks) - 1
		switch {
		case strings.HasPrefix(line, "--- a/"):
			file, open = strings.TrimSpace(line[len("--- a/"):]), false
		case strings.HasPrefix(line, "+++ b/"):
			if file != strings.TrimSpace(line[len("+++ b/"):]) {
				return fmt.Errorf("%q: a mutant renames nothing", line)
			}
		case strings.HasPrefix(line, "@@") && file != "":
			m.hunks = append(m.hunks, hunk{file: file})
			open = true
		case !open:
			return fmt.Errorf("%q is outside of any hunk", line)
		case line[0] == ' ':
			m.hunks[last].old += line[1:]
			m.hunks[last].new += line[1:]
		case line[0] == '-':
			m.hunks[last].old += line[1:]
		case line[0] == '+':
			m.hunks[last].new += line[1:]
		default:
			return fmt.Errorf("%q is no line of a diff", line)
		}
	}
	for i, h := range m.hunks {
		if h.old == "" || h.old == h.new {
			return fmt.Errorf("hunk %d changes nothing or stands nowhere", i+1)
		}
	}
	if len(m.hunks) == 0 {
		return fmt.Errorf("no hunks")
	}
	return nil
}

// mutate returns the files that m changes under root, as they are and as m
// would have them.
func (m mutant) mutate(root string) (before, after map[string]string, err error) {
	before, after = map[string]string{}, map[string]string{}
	for i, h := range m.hunks {
		if _, read := before[h.file]; !read {
			text, err := os.ReadFile(filepath.Join(root, h.file))
			if err != nil {
				return nil, nil, fmt.Errorf("%s.patch: %w", m.name, err)
			}
			before[h.file], after[h.file] = string(text), string(text)
		}
		// Whole lines only: a line that ends like the first one is another.
		lines := "\n" + after[h.file]
		switch n := strings.Count(lines, "\n"+h.old); n {
		case 1:
			after[h.file] = strings.Replace(lines, "\n"+h.old, "\n"+h.new, 1)[1:]
		case 0:
			return nil, nil, fmt.Errorf("%s.patch no longer applies: the text of hunk %d is not in %s; make the patch anew", m.name, i+1, h.file)
		default:
			return nil, nil, fmt.Errorf("%s.patch is ambiguous: the text of hunk %d stands in %d places of %s; give it more context", m.name, i+1, n, h.file)
		}
	}
	return before, after, nil
}

// write puts texts under root.
func write(root string, texts map[string]string) error {
	for file, text := range texts {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
