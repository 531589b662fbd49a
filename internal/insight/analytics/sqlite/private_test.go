package sqlite_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
)

// Nobody but its owner reads a database and the files beside it, new ones and those that
// were there with other permissions.
func TestFamilyFilesArePrivate(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "weir.db")
	for round := range 3 {
		db, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := analytics.New(db, analytics.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := analyticstest.Count(t, s, analyticstest.Event(time.Now())); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(path + "*")
		if err != nil || len(files) < 3 {
			t.Fatalf("%q: %v", files, err)
		}
		for _, name := range files {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if mode := info.Mode().Perm(); mode != 0o600 {
				t.Errorf("round %d: %s is %v", round, filepath.Base(name), mode)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Chmod(fs.FileMode(0o644)); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
}

// What is not a regular file is no database, and nobody waits for it.
func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir} {
		if db, err := sqlite.Open(t.Context(), path); err == nil {
			db.Close()
			t.Errorf("%s opened", path)
		} else if path == pipe && !strings.Contains(err.Error(), "regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
