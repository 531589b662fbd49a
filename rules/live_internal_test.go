package rules

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
		_ = live.loadFiles(false)
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

// TestReloadIsLogged: who asks for a reload is answered, an end of trouble is
// told, and files that are as they were are passed over.
func TestReloadIsLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	const good = "domain: a\ndescriptors:\n- {key: k, Value: v, limit: 1/minute}\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	logged := func(when string, want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		out.Reset()
		if len(lines) != max(1, len(want)) {
			t.Errorf("%s: logged %q, want %q", when, lines, want)
			return
		}
		for i, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%s: logged %q, want %q", when, lines[i], w)
			}
		}
	}
	write(good)
	live, err := Open([]string{file}, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	logged("opened", `level=INFO msg="rules loaded"`, `level=WARN msg="rules warning"`)
	_ = live.loadFiles(false)
	logged("looked at")
	_ = live.Reload()
	logged("asked", `level=INFO msg="rules reloaded, unchanged"`)
	write("domain: [")
	_ = live.loadFiles(false)
	logged("broken", "level=ERROR")
	write(good)
	_ = live.loadFiles(false)
	logged("mended", `level=INFO msg="rules reloaded, unchanged"`)
}
