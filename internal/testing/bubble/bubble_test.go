package bubble_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

// Timers that fire, are looked at and are set again all at once: with two processors
// the race detector crashes within a second.
func TestManyTimers(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	t.Run("bubbles", func(t *testing.T) {
		for range 4 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range 10 {
					bubble.Test(t, timers)
				}
			})
		}
	})
	if n := runtime.GOMAXPROCS(0); n != procs {
		t.Errorf("%d processors are used, not %d", n, procs)
	}
}

func timers(*testing.T) {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+i*j%5)*time.Millisecond)
				timer := time.NewTimer(time.Duration(1+j%3) * time.Millisecond)
				later := time.AfterFunc(time.Duration(1+j%4)*time.Millisecond, func() { time.Sleep(time.Microsecond) })
				select {
				case <-ctx.Done():
				case <-timer.C:
				}
				timer.Reset(time.Millisecond)
				time.Sleep(time.Millisecond)
				select {
				case <-timer.C:
				default:
				}
				later.Stop()
				timer.Stop()
				cancel()
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Second)
}

// Tests that make their bubbles themselves crash the race detector now and then.
func TestNobodyElseMakesBubbles(t *testing.T) {
	tree := os.DirFS("../../..")
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || path == ".git" || path == "internal/testing/bubble"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, path)
		if bytes.Contains(text, []byte("synctest.Test(")) {
			t.Errorf("%s: synctest.Test: use bubble.Test", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
