package overlay_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// writerEnv names the file of the process that this program is for
// TestFamilyFileIsWhole.
const writerEnv = "WEIR_TEST_OVERLAY_WRITER"

// TestMain is a process that writes and is killed when a test starts this program as
// one.
func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		fmt.Fprintln(os.Stderr, writeFiles(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fileParts are the names of the documents that a file keeps, by what is behind its
// path.
var fileParts = map[string]string{"": "overlay", ".audit": "overlay.audit"}

// document returns one of about so many bytes, half of which is none.
func document(size int) string { return `{"format":1,` + strings.Repeat(" ", size) + `"entries":[]}` }

// writeFiles writes documents of all sizes into the files, by several callers at once,
// and a line for each, until it is killed or there is an error. It has no umask.
func writeFiles(path string) error {
	syscall.Umask(0)
	b, err := overlay.OpenFile(path)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for _, part := range fileParts {
		for range 2 {
			go func() {
				known := int64(0)
				for {
					d, err := b.SwapDocument(context.Background(), part, known, documents.Document{Data: []byte(document(rand.IntN(1 << 20)))})
					if err == nil {
						_, err = fmt.Println(part)
					} else if errors.Is(err, documents.ErrChanged) {
						d, err = b.ReadDocument(context.Background(), part, -1)
					}
					known = d.Version
					if err != nil {
						failed <- err
						return
					}
				}
			}()
		}
	}
	return <-failed
}

// TestFamilyFileIsWhole: while a process writes its files, and after it is killed at any
// moment, each is a whole document, for its user alone, whatever the umask and the mode
// of the file before. What a crash leaves beside them is for its user alone too, is not
// read, and is in nobody's way.
func TestFamilyFileIsWhole(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runs := 8
	if os.Getenv("WEIR_SOAK") == "1" {
		runs = 400
	}
	r := rand.New(rand.NewPCG(seeds.Of(t), 1))
	path := filepath.Join(t.TempDir(), "overlay.json")
	for suffix := range fileParts {
		for name, text := range map[string]string{suffix: document(10), suffix + ".1234567": `{"format":1,"ent`} {
			if err := os.WriteFile(path+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path+suffix, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	temporary := regexp.MustCompile(`^overlay\.json(\.audit)?\.[0-9]+$`)
	left := 0
	for run := range runs {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env, cmd.Stderr = append(os.Environ(), writerEnv+"="+path), os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		done := make(chan struct{})
		for range 2 {
			readers.Go(func() {
				for {
					if _, err := overlay.OpenFile(path); err != nil {
						t.Errorf("run %d, while it is written: %v", run, err)
						return
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		written, lines := map[string]bool{}, bufio.NewScanner(out)
		for more := r.IntN(10); len(written) < len(fileParts) || more > 0; more-- {
			if !lines.Scan() {
				t.Errorf("run %d: the writer ended: %v", run, lines.Err())
				break
			}
			written[lines.Text()] = true
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		close(done)
		readers.Wait()
		_ = cmd.Wait() // says that it was killed
		if t.Failed() {
			return
		}
		if _, err := overlay.OpenFile(path); err != nil {
			t.Fatalf("run %d, after a crash: %v", run, err)
		}
		all, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		left = 0
		for _, e := range all {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != 0o600 {
				t.Errorf("run %d: %s is %s", run, e.Name(), info.Mode())
			}
			if _, isPart := fileParts[strings.TrimPrefix(e.Name(), "overlay.json")]; isPart {
				continue
			}
			if left++; !temporary.MatchString(e.Name()) {
				t.Errorf("run %d left %s", run, e.Name())
			}
		}
	}
	t.Logf("%d crashes left %d files", runs, left-len(fileParts))
	for suffix := range fileParts {
		if text, err := os.ReadFile(path + suffix + ".1234567"); err != nil || string(text) != `{"format":1,"ent` {
			t.Errorf("what an earlier crash left: %q, %v", text, err)
		}
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	// Alone, what crashes left is no document.
	b, err := overlay.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range fileParts {
		if d, err := b.ReadDocument(context.Background(), part, -1); err != nil || d.Version != 0 || d.Data != nil {
			t.Errorf("%s: version %d, %d bytes, %v", part, d.Version, len(d.Data), err)
		}
	}
	// A write that fails leaves nothing.
	before, err := filepath.Glob(path + ".[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SwapDocument(context.Background(), "overlay", 0, documents.Document{Data: []byte(document(10))}); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder in the place of the file: %v", err)
	}
	if after, err := filepath.Glob(path + ".[0-9]*"); err != nil || len(after) != len(before) {
		t.Errorf("left by a write that failed: %v, %v", after, err)
	}
}
