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
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
