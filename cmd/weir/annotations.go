package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/weirlimit/weir/rules"
)

// textOf returns a finding without its place.
func textOf(e *rules.Error) string {
	return strings.TrimPrefix((&rules.Error{Path: e.Path, Msg: e.Msg, Hint: e.Hint}).Error(), ": ")
}

// levelOf returns how severe a finding is, in the words of GitHub and SARIF.
func levelOf(e *rules.Error) string {
	if e.Warning {
		return "warning"
	}
	return "error"
}

// Escapes of GitHub's workflow commands.
var (
	escapeMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	escapeProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// githubLine returns the workflow command by which GitHub shows a finding beside its line.
func githubLine(e *rules.Error) string {
	at := "file=" + escapeProperty.Replace(filepath.ToSlash(e.File))
	if e.Line > 0 {
		at += fmt.Sprintf(",line=%d", e.Line)
	}
	if e.Column > 0 {
		at += fmt.Sprintf(",col=%d", e.Column)
	}
	return fmt.Sprintf("::%s %s::%s", levelOf(e), at, escapeMessage.Replace(textOf(e)))
}

// sarifLog is a log of SARIF 2.1.0, as far as findings need it.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string    `json:"id"`
	ShortDescription sarifText `json:"shortDescription"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			StartLine   int `json:"startLine"`
			StartColumn int `json:"startColumn,omitempty"`
		} `json:"region"`
	} `json:"physicalLocation"`
}

// newSARIF returns findings as a log. One about a file as a whole is at its first line, as
// code scanning shows none without a line.
func newSARIF(errs rules.Errors) *sarifLog {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "weir", Version: readBuild().Version, InformationURI: "https://github.com/weirlimit/weir",
		Rules: []sarifRule{{"fault", sarifText{"The file does not load, or does not do what it says."}}, {"warning", sarifText{"The file loads, and is likely not what was meant."}}}}
	for _, e := range errs {
		var at sarifLocation
		at.Physical.Artifact.URI = fileURI(e.File)
		at.Physical.Region.StartLine, at.Physical.Region.StartColumn = max(e.Line, 1), e.Column
		r := sarifResult{RuleID: "fault", Level: levelOf(e), Message: sarifText{textOf(e)}, Locations: []sarifLocation{at}}
		if e.Warning {
			r.RuleID = "warning"
		}
		run.Results = append(run.Results, r)
	}
	return &sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

// fileURI returns the path of a file as a URI, relative if the path is.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme, u.Path = "file", "/"+strings.TrimPrefix(u.Path, "/")
	}
	return u.String()
}
