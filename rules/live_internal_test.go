package rules

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLookAtUnchangedFiles: a look that finds the files as they were, good or
// bad, is no attempt to load them.
func TestLookAtUnchangedFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("domain: a\n")
	live, err := Open([]string{file}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	look := func(successes, failures uint64) {
		t.Helper()
		_ = live.load(false)
		if s := live.Status(); s.Successes != successes || s.Failures != failures {
			t.Errorf("%d successes, %d failures, want %d, %d", s.Successes, s.Failures, successes, failures)
		}
	}
	look(1, 0)
	write("domain: [\n")
	look(1, 1)
	look(1, 1)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	look(1, 2)
	look(1, 2)
	// Back to what is in use: the fault is over, the set stays.
	set := live.Set()
	write("domain: a\n")
	look(2, 2)
	if s := live.Status(); s.Err != nil || s.Generation != 1 || live.Set() != set {
		t.Errorf("status %+v", s)
	}
}
