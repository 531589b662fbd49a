package rules_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestGolden pairs rules files with what they compile to. A file in
// testdata/rules is a comment, which can hold the lines
// "merge: true", and sections, each beneath a line such as
// "-- name --": the rules files; and the answers, which
// -update writes: "compiled", "errors", and "requests", in which a line such as
//
//	api: client_id=1 plan=pro; path=/ cost=3 priority=1 peek
//
// is followed by what the request meets.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("../testdata/rules/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a := readArchive(string(was))
	opt := rules.Options{MaxDepth: 20, MaxNodes: 5000, MaxDescriptors: 100}
	for line := range strings.Lines(a.comment) {
		switch strings.TrimSpace(line) {
		case "merge: true":
			opt.Merge = true
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	var paths []string
	var requests string
	out := &archive{comment: a.comment}
	for _, f := range a.files {
		switch f.name {
		case "compiled", "errors":
		case "requests":
			requests = f.text
		default:
			if err := os.WriteFile(f.name, []byte(f.text), 0o600); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, f.name)
			out.files = append(out.files, f)
		}
	}
	set, errs := rules.Check(paths, opt)
	if set != nil {
		out.files = append(out.files, section{"compiled", describeSet(set)})
	}
	if len(errs) > 0 {
		out.files = append(out.files, section{"errors", errs.Error() + "\n"})
	}
	if requests != "" && set != nil {
		requests = answer(t, set, requests)
	}
	if requests != "" {
		out.files = append(out.files, section{"requests", requests})
	}
	got := out.String()
	if got == string(was) {
		return
	}
	if *update {
		t.Chdir(filepath.Dir(t.TempDir()))
		if err := os.WriteFile(goldenPath(file), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs (run with -update to accept)\n%s", file, diff(string(was), got))
}

// start is the directory of this package: the tests change to others.
var start, _ = os.Getwd()

func goldenPath(file string) string { return filepath.Join(start, file) }

// diff shows the lines that two texts do not share.
func diff(want, got string) string {
	in := func(text string) map[string]bool {
		m := map[string]bool{}
		for l := range strings.Lines(text) {
			m[l] = true
		}
		return m
	}
	var b strings.Builder
	a, z := in(want), in(got)
	for l := range strings.Lines(want) {
		if !z[l] {
			b.WriteString("- " + l)
		}
	}
	for l := range strings.Lines(got) {
		if !a[l] {
			b.WriteString("+ " + l)
		}
	}
	return b.String()
}

// answer writes what each request of the text meets beneath it.
func answer(t *testing.T, set *limits.Set, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") || strings.TrimSpace(line) == "" {
			continue
		}
		b.WriteString(line)
		r := readRequest(t, strings.TrimSpace(line))
		ops := set.Match(nil, r)
		x := set.Explain(r)
		for i := range ops {
			b.WriteString(opLine(&ops[i]))
		}
		if x.Listed != nil {
			fmt.Fprintf(&b, "  = on the %s list of the domain: %s=%s\n", x.Listed.List, x.Listed.Entry.Key, x.Listed.Entry.Value)
			continue
		}
		for _, s := range x.Descriptors {
			why := s.Why
			if s.Outcome == "no rule" && len(s.Levels) > 0 {
				why += ": " + s.Levels[len(s.Levels)-1].Why
			}
			for _, name := range s.Replaced {
				why += ", " + name + " is replaced"
			}
			fmt.Fprintf(&b, "  = %s by %q: %s\n", s.Outcome, s.Rule, why)
		}
	}
	return b.String()
}

var roles = [...]string{"enforce", "soft", "shadow", "own", "pool", "always", "ban", "deny"}

// opName is what an op's name begins with: nothing where it is enforced.
func opName(r weir.Role) string {
	if r == weir.Enforce {
		return ""
	}
	return roles[r] + ":"
}

func opLine(o *weir.Op) string {
	s := fmt.Sprintf("  %s %s %s key %q cost %d", roles[o.Role], o.Limit.Name, period.Rate{Count: o.Limit.Count, Period: o.Limit.Period}, o.Key, o.Cost)
	if o.Headroom > 0 {
		s += fmt.Sprintf(" reserve %d", o.Headroom)
	}
	if o.Verb != weir.Spend {
		s += " " + o.Verb.String()
	}
	if o.Penalize {
		s += " penalize"
	}
	return s + "\n"
}

// readRequest reads "domain: k=v k=v; k=v cost=3 priority=1 peek".
func readRequest(t *testing.T, line string) *weir.Request {
	domain, rest, _ := strings.Cut(line, ": ")
	r := &weir.Request{Domain: domain}
	for _, part := range strings.Split(rest, ";") {
		var d weir.Descriptor
		for _, word := range strings.Fields(part) {
			k, v, _ := strings.Cut(word, "=")
			n, err := strconv.ParseInt(v, 10, 64)
			switch {
			case k == "cost" && err == nil:
				r.Cost = n
			case k == "priority" && err == nil:
				r.Priority = int(n)
			case word == "peek":
				d.Peek = true
			default:
				d.Entries = append(d.Entries, weir.Entry{Key: k, Value: v})
			}
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// archive is a text with sections.
type archive struct {
	comment string
	files   []section
}

type section struct{ name, text string }

func readArchive(text string) *archive {
	a := &archive{}
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "-- ")
		if name, end := strings.CutSuffix(name, " --"); ok && end {
			a.files = append(a.files, section{name: name})
			continue
		}
		if n := len(a.files); n > 0 {
			a.files[n-1].text += line
		} else {
			a.comment += line
		}
	}
	return a
}

func (a *archive) String() string {
	s := a.comment
	for _, f := range a.files {
		s += "-- " + f.name + " --\n" + f.text
	}
	return s
}
