package servertest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Config writes a configuration file of weir serve, in the form of fmt.Sprintf, and
// returns its path.
func Config(t testing.TB, format string, args ...any) string {
	t.Helper()
	return File(t, "weir.yaml", fmt.Sprintf(format, args...))
}

// File writes a file of that name, in a folder of its own, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Write(t, path, text)
	return path
}

// Write writes a file, or writes it anew.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
