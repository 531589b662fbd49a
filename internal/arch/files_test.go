package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxFile is the largest file that may be committed. The largest one today is a library
// that a test of the dashboard needs, of about 640 KB.
const maxFile = 1 << 20

// TestNoLargeFiles fails when a file above maxFile is tracked: it is nearly always a
// program that was built in the tree, and every clone carries it for ever.
func TestNoLargeFiles(t *testing.T) {
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("this is no clone: nothing is tracked here")
	}
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(files) < 100 {
		t.Fatalf("only %d files are tracked", len(files))
	}
	for _, file := range files {
		info, err := os.Stat(filepath.Join("../..", file))
		if os.IsNotExist(err) {
			continue // removed, not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxFile {
			t.Errorf("%s has %d bytes, at most %d are allowed: git rm --cached it, and add it to .gitignore",
				file, info.Size(), maxFile)
		}
	}
}
