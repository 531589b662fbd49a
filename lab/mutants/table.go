package main

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed mutants.txt
var table string

// mutant is one entry of the table.
type mutant struct {
	dir  string // of the package, as ./algorithm
	decl string // function, Type.method, declared name, file.lua or file.lua:function
	was  string
	now  string
	kill kill
	harm string
}

func (m mutant) String() string { return m.dir + " " + m.decl }

// kill is a set of tests of which one must fail.
type kill struct{ pkg, pattern string }

func (k kill) String() string { return k.pkg + " " + k.pattern }

// parseTable reads entries. It fails for an entry that has a line of another
// kind, has one twice or lacks one.
func parseTable(text string) ([]mutant, error) {
	var all []mutant
	for entry := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		m, err := parseEntry(strings.TrimSpace(entry))
		if err != nil {
			head, _, _ := strings.Cut(strings.TrimSpace(entry), "\n")
			return nil, fmt.Errorf("mutants.txt: entry %q: %w", head, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func parseEntry(entry string) (m mutant, err error) {
	head, body, _ := strings.Cut(entry, "\n")
	dir, decl, ok := strings.Cut(head, " ")
	if !ok || !strings.HasPrefix(dir, ".") {
		return m, fmt.Errorf("begin it with a package and a function, as in ./algorithm tat.within")
	}
	fields := map[string]string{}
	last := ""
	for line := range strings.SplitSeq(body, "\n") {
		if rest, ok := strings.CutPrefix(line, "\t"); ok && last != "" {
			fields[last] += "\n" + rest
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		if _, twice := fields[key]; twice || !strings.Contains(" was now kill harm ", " "+key+" ") {
			return m, fmt.Errorf("line %q: want was, now, kill and harm, once each", line)
		}
		fields[key], last = value, key
	}
	if _, ok := fields["now"]; !ok || fields["was"] == "" || fields["kill"] == "" || fields["harm"] == "" {
		return m, fmt.Errorf("want was, now, kill and harm")
	}
	if fields["was"] == fields["now"] {
		return m, fmt.Errorf("it changes nothing")
	}
	m = mutant{dir: dir, decl: decl, was: fields["was"], now: fields["now"], harm: fields["harm"]}
	m.kill = kill{dir, fields["kill"]}
	if pkg, pattern, ok := strings.Cut(fields["kill"], " "); ok {
		m.kill = kill{pkg, pattern}
	}
	return m, nil
}
