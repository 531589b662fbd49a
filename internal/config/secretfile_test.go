package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFamilySecretFiles: one newline at the end of a secret file is no part of
// the secret, and an empty secret is an error.
func TestFamilySecretFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"s3cret": "s3cret", "s3cret\n": "s3cret", "s3cret\r\n": "s3cret", "s3cret\n\n": "s3cret\n", " s3cret ": " s3cret ",
		"": "", "\n": "", "\r\n": "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret("secret", path)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}
