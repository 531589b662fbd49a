package main

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/rules"
)

// readAnnotation reads a workflow command as GitHub's runner does: the properties end at
// the first "::", and their values are unescaped after they are split.
func readAnnotation(line string) (level string, properties map[string]string, message string, ok bool) {
	rest, ok := strings.CutPrefix(line, "::")
	if !ok {
		return "", nil, "", false
	}
	command, message, ok := strings.Cut(rest, "::")
	level, list, _ := strings.Cut(command, " ")
	properties = map[string]string{}
	for _, pair := range strings.Split(list, ",") {
		name, value, _ := strings.Cut(pair, "=")
		for _, e := range [][2]string{{"%0D", "\r"}, {"%0A", "\n"}, {"%3A", ":"}, {"%2C", ","}, {"%25", "%"}} {
			value = strings.ReplaceAll(value, e[0], e[1])
		}
		properties[name] = value
	}
	for _, e := range [][2]string{{"%0D", "\r"}, {"%0A", "\n"}, {"%25", "%"}} {
		message = strings.ReplaceAll(message, e[0], e[1])
	}
	return level, properties, message, ok
}

func TestGitHubLine(t *testing.T) {
	f := func(e *rules.Error, want string) {
		t.Helper()
		if got := githubLine(e); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(&rules.Error{File: "rules/a.yaml", Line: 4, Column: 12, Path: "api/x", Msg: "no unit", Hint: "write minute"}, "::error file=rules/a.yaml,line=4,col=12::api/x: no unit (write minute)")
	f(&rules.Error{File: "a:b,c%.yaml", Msg: "100%:\r\n::set-output name=x::y", Warning: true}, "::warning file=a%3Ab%2Cc%25.yaml::100%25:%0D%0A::set-output name=x::y")
}

// FuzzGitHubLine: the runner reads file, place and message back as they were, from one line.
func FuzzGitHubLine(f *testing.F) {
	f.Add("a:b,c.yaml", "100% of\r\n::error::x", 4, false)
	f.Add("%2C%0A", "%25", 0, true)
	f.Fuzz(func(t *testing.T, file, msg string, number int, warning bool) {
		if msg == "" || strings.Contains(file, "\\") { // a separator on some systems
			return
		}
		e := &rules.Error{File: file, Msg: msg, Line: number, Warning: warning}
		line := githubLine(e)
		if strings.ContainsAny(line, "\r\n") {
			t.Fatalf("more than one line: %q", line)
		}
		level, properties, message, ok := readAnnotation(line)
		// ": " at the beginning is of the place, which the line has apart.
		if !ok || level != levelOf(e) || properties["file"] != file || message != msg && ": "+message != msg {
			t.Errorf("%q is read as %q %q %q", line, level, properties, message)
		}
		if number > 0 && properties["line"] != strconv.Itoa(number) || len(properties) > 2 {
			t.Errorf("%q is read with %q", line, properties)
		}
	})
}

// The log has what SARIF 2.1.0 requires, and places count from 1.
func TestSARIF(t *testing.T) {
	data, err := json.Marshal(newSARIF(rules.Errors{
		{File: "rules/a b:c.yaml", Line: 4, Column: 12, Path: "api/x", Msg: "no unit\n\xff", Hint: "write minute"},
		{File: "/etc/weir/é.yaml", Msg: "nothing", Warning: true},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Schema, Version string
		Runs            []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct{ ID string }
				}
			}
			ColumnKind string
			Results    []struct {
				RuleID, Level string
				Message       struct{ Text string }
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn *int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(data, &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name != "weir" || log.Runs[0].ColumnKind != "unicodeCodePoints" || len(log.Runs[0].Results) != 2 {
		t.Fatalf("got %s", data)
	}
	known := map[string]bool{}
	for _, r := range log.Runs[0].Tool.Driver.Rules {
		known[r.ID] = true
	}
	for i, want := range []struct {
		level, text, path string
		line              int
	}{
		{"error", "api/x: no unit\n\ufffd (write minute)", "rules/a b:c.yaml", 4},
		{"warning", "nothing", "/etc/weir/é.yaml", 1},
	} {
		r := log.Runs[0].Results[i]
		if r.Level != want.level || !known[r.RuleID] || r.Message.Text != want.text || len(r.Locations) != 1 {
			t.Errorf("%d: got %+v", i, r)
			continue
		}
		at := r.Locations[0].PhysicalLocation
		u, err := url.Parse(at.ArtifactLocation.URI)
		if err != nil || u.Path != want.path || (u.Scheme == "file") != strings.HasPrefix(want.path, "/") {
			t.Errorf("%d: the file is %q, %v", i, at.ArtifactLocation.URI, err)
		}
		if at.Region.StartLine == nil || *at.Region.StartLine != want.line || at.Region.StartColumn != nil && *at.Region.StartColumn < 1 {
			t.Errorf("%d: the region is %+v", i, at.Region)
		}
	}
	// No findings are an empty list, not null.
	if data, err := json.Marshal(newSARIF(nil)); err != nil || !strings.Contains(string(data), `"results":[]`) {
		t.Errorf("got %s, %v", data, err)
	}
}
