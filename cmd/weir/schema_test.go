package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// TestSchema: weir schema prints the bytes that a release publishes.
func TestSchema(t *testing.T) {
	for _, of := range []string{"config", "rules"} {
		want, err := os.ReadFile("schema/" + of + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command(binary, "schema", of).Output()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("weir schema %s prints %d bytes, and not the %d of its file", of, len(got), len(want))
		}
	}
}
