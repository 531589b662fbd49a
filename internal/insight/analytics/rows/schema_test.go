package rows

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var Update = flag.Bool("update", false, "rewrite testdata/schema.sql; only before the version it belongs to is released")

// Migrations that were released do not change: databases have them.
func TestSchema(t *testing.T) {
	var b strings.Builder
	for i, statements := range migrations {
		fmt.Fprintf(&b, "-- migration %d\n", i+1)
		for _, s := range statements {
			b.WriteString(strings.Join(strings.Fields(s), " ") + ";\n")
		}
	}
	const path = "testdata/schema.sql"
	if *Update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Error("migrations differ from testdata/schema.sql: add one instead of changing those that there are")
	}
}
