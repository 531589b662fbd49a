package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/lab/bench/report"
)

func TestEveryAlgorithmHasAUser(t *testing.T) {
	have := make(map[string]bool)
	for _, u := range users {
		have[u.name()] = true
	}
	for _, a := range algorithm.All {
		if !have[a.Name()] {
			t.Errorf("no user of %s: give it a line in users", a.Name())
		}
	}
}

// Every kind of user can be measured, at a size that takes no time.
func TestEveryUserIsMeasured(t *testing.T) {
	for _, u := range users {
		f, err := measureUsers(u, 300, question{Round: time.Millisecond, Rounds: 1})
		if err != nil {
			t.Errorf("%s: %v", u.name(), err)
			continue
		}
		if f.Users != 300 || f.Heap <= 0 || f.One.CPU <= 0 || f.Both.Wall <= 0 {
			t.Errorf("%s: %+v", u.name(), f)
		}
	}
}

func TestFullLogsHoldWhatTheySay(t *testing.T) {
	for _, u := range users {
		if u.name() != "sliding_log" {
			continue
		}
		f, err := measureUsers(u, 2000, question{Round: time.Millisecond, Rounds: 1})
		if err != nil {
			t.Fatal(err)
		}
		// A word for each unit: less would mean that the log was not full.
		if f.Heap < float64(8*u.units) {
			t.Errorf("%s of %d units: %.0f bytes a user", u.name(), u.units, f.Heap)
		}
	}
}

func TestTablesTellMeasuredFromComputed(t *testing.T) {
	measured := make([]map[int]figures, len(users))
	for i := range users {
		measured[i] = map[int]figures{million: {Users: million, Heap: 20}}
	}
	text := memoryTable(measured, full)
	row := lineOf(t, text, "`token_bucket`")
	for _, want := range []string{" 20.0 MB |", "*200.0 MB*", "*2.00 GB*", "(at 1 million)"} {
		if !strings.Contains(row, want) {
			t.Errorf("no %q in %s", want, row)
		}
	}
	if row := lineOf(t, text, "`leaky_bucket`"); !strings.Contains(row, "50 bytes a user") {
		t.Errorf("no estimate in %s", row)
	}
}

func lineOf(t *testing.T, text, word string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return line
		}
	}
	t.Fatalf("no %s in %s", word, text)
	return ""
}

func TestDocumentHasTheSections(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/reference/generated/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{"memory", "rate"} {
		if _, err := report.Replace(string(text), section, "figures"); err != nil {
			t.Error(err)
		}
	}
}
