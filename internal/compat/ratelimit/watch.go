package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/filewatch"
)

const (
	// settle is how long a directory must be quiet before it is read again:
	// who writes a file in pieces is not read in between.
	settle = 20 * time.Millisecond
	// settleMost is how long unrest may put that off.
	settleMost = 500 * time.Millisecond
	// poll is how often to look for what no event told.
	poll = 30 * time.Second
)

// fileSource has the rules of files, and watches them.
type fileSource struct {
	// tree is nil when no directory is named: then there are no rules.
	tree *tree
	// watched is the directory whose events are heard.
	watched string
	// link is the path whose swap counts. Empty means any change in watched.
	link    string
	log     *slog.Logger
	watcher *filewatch.Watcher
	// seen is how the rules were when they were last given.
	seen string
}

// newFileSource watches from now on; Run reads.
func newFileSource(s *settings.Settings, scope *stats.Scope, log *slog.Logger) (*fileSource, error) {
	f := &fileSource{log: log}
	path := filepath.Join(s.RuntimeRoot, s.RuntimeSubdirectory)
	last := s.RuntimeSubdirectory
	if !s.RuntimeWatchRoot {
		last = s.RuntimeAppDirectory
	} else {
		path = s.RuntimeRoot
	}
	if path == "" || last == "" {
		log.Warn("there are no rules: RUNTIME_ROOT, or RUNTIME_SUBDIRECTORY with RUNTIME_WATCH_ROOT=true, is not set")
		return f, nil
	}
	f.tree = newTree(s, scope, log)
	if s.RuntimeWatchRoot {
		f.link = filepath.Clean(s.RuntimeRoot)
		f.watched = filepath.Dir(f.link)
	} else {
		f.watched = f.tree.root
	}
	f.watcher = filewatch.New(filewatch.Options{Settle: settle, SettleMost: settleMost, Poll: poll, Counts: f.mayChangeRules, Name: "runtime", Log: log})
	if err := f.watcher.Add(f.watched); err != nil {
		return nil, errors.Join(fmt.Errorf("unable to watch %s, where rules are to be (RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY): %w", f.watched, err), f.watcher.Close())
	}
	return f, nil
}

// Run is a ruleSource.
func (f *fileSource) Run(ctx context.Context, r *Rules) {
	if f.tree == nil {
		_ = r.TakeFiles(nil) // logged there
		return
	}
	defer f.watcher.Close()
	changed, err := true, error(nil)
	for err == nil {
		f.lookForRules(r, changed)
		changed, err = f.watcher.Wait(ctx)
	}
}

// mayChangeRules reports whether an event may have changed the rules.
func (f *fileSource) mayChangeRules(ev fsnotify.Event) bool {
	if f.link != "" {
		return filepath.Clean(ev.Name) == f.link && ev.Op.Has(fsnotify.Create|fsnotify.Write)
	}
	return filepath.Dir(ev.Name) == filepath.Clean(f.watched)
}

// lookForRules reads the rules and gives them: if they have changed, as an event says, or are not as
// they were seen. Refused ones are logged by the taker.
func (f *fileSource) lookForRules(r *Rules, changed bool) {
	if !changed {
		// A directory that was replaced has lost its watch.
		if err := f.watcher.Add(f.watched); err != nil {
			f.log.Warn("runtime watch error", "err", err)
		}
	}
	found := f.tree.readFiles()
	files := found.files()
	state, ok := f.stateOf(files), len(found.failures) == 0
	if f.link != "" {
		ok = state != ""
	}
	if changed || ok && state != f.seen {
		f.seen = state
		f.tree.countReading(found)
		_ = r.TakeFiles(files)
	}
}

// stateOf tells two states of the rules apart, as far as the mode watches them.
func (f *fileSource) stateOf(files []envoy.File) string {
	if f.link != "" {
		target, err := os.Readlink(f.link)
		if err != nil {
			return "" // not a link, or not there: nothing to swap
		}
		return target
	}
	h := sha256.New()
	for _, file := range files {
		for _, part := range [][]byte{[]byte(file.Name), file.Content} {
			h.Write(binary.AppendUvarint(nil, uint64(len(part))))
			h.Write(part)
		}
	}
	return string(h.Sum(nil))
}
