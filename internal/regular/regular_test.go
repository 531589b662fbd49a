package regular_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/regular"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, size := range []int{0, 1, 9, 10, 11, 5000} {
		text := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := regular.Read(path, 10)
		if size > 10 {
			if err == nil || !strings.Contains(err.Error(), "larger than 10 bytes") {
				t.Errorf("%d bytes: %v", size, err)
			}
		} else if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %q, %v", size, got, err)
		}
		got, err = regular.ReadPrefix(path, 7)
		if err != nil || !bytes.Equal(got, text[:min(size, 7)]) {
			t.Errorf("prefix of %d bytes: %q, %v", size, got, err)
		}
	}
	if _, err := regular.Read(filepath.Join(t.TempDir(), "none"), 10); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	// The size of a file in /proc is 0, whatever it holds.
	if got, err := regular.Read("/proc/self/status", 1<<20); err != nil || len(got) < 100 {
		t.Errorf("a file of unknown size: %d bytes, %v", len(got), err)
	}
}

// TestFamilyOnlyRegularFiles: what is no regular file is refused at once, also
// through a link.
func TestFamilyOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, socket, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, link, "/dev/null", "/dev/zero"} {
		if _, err := regular.Read(path, 10); !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := regular.Read(socket, 10); err == nil {
		t.Error("a socket was read")
	}
}
