package rules

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watch reloads the rules when their files change, until ctx ends, and then
// returns nil. It sees files written in place and renamed over, the swap of a
// Kubernetes ConfigMap's ..data, and the swap of any symbolic link on the way
// to the files. What it is not told of, as on network file systems, it finds
// by looking every Options.Poll. Files that did not change are not compiled
// again.
func (l *Live) Watch(ctx context.Context) error {
	w := &watcher{watched: map[string]bool{}}
	var events chan fsnotify.Event
	var errs chan error
	if n, err := fsnotify.NewWatcher(); err != nil {
		l.opt.Logger.Warn("rules files watch failed; polling instead", "err", err, "every", l.opt.Poll)
	} else {
		defer n.Close()
		w.notify, events, errs = n, n.Events, n.Errors
	}
	poll := time.NewTicker(l.opt.Poll)
	defer poll.Stop()
	settled := time.NewTimer(0)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-events:
			if !ok {
				events = nil
			}
			settled.Reset(l.opt.Settle)
			continue
		case err, ok := <-errs:
			if !ok {
				errs = nil
			}
			// Events were lost: look.
			l.opt.Logger.Warn("rules files watch lost events; checking all files", "err", err)
			settled.Reset(l.opt.Settle)
			continue
		case <-settled.C:
		case <-poll.C:
		}
		// The watches come first, so that a change after the look is seen.
		w.follow(l.paths)
		// The error is in the status and the log.
		_ = l.load(false)
	}
}

// watcher watches the directories that decide what the paths of rules hold.
type watcher struct {
	notify  *fsnotify.Watcher
	watched map[string]bool
}

// follow watches what must be watched now, and nothing else.
func (w *watcher) follow(paths []string) {
	if w.notify == nil {
		return
	}
	want := map[string]bool{}
	for _, p := range paths {
		for _, dir := range watchDirs(p) {
			want[dir] = true
		}
	}
	for dir := range w.watched {
		if !want[dir] {
			// It may be gone, and its watch with it.
			_ = w.notify.Remove(dir)
			delete(w.watched, dir)
		}
	}
	for dir := range want {
		// Again each time: a directory that was removed and made anew has lost
		// its watch. What cannot be watched is polled.
		if w.notify.Add(dir) == nil {
			w.watched[dir] = true
		}
	}
}

// maxLinks bounds how many symbolic links are followed on the way to a file,
// as the system does.
const maxLinks = 40

// watchDirs returns the directories in which a change can change what path
// holds: the real directory at the end, or that of the file, and each directory
// that holds a symbolic link on the way.
func watchDirs(path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	var dirs []string
	at := string(filepath.Separator)
	rest := strings.Split(strings.Trim(path, at), at)
	for links := 0; len(rest) > 0; {
		step := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, step)
		info, err := os.Lstat(next)
		if err != nil {
			// It is not there: its coming is what matters.
			return append(dirs, at)
		}
		if info.Mode()&os.ModeSymlink == 0 {
			if !info.IsDir() {
				return append(dirs, at)
			}
			at = next
			continue
		}
		dirs = append(dirs, at)
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return dirs
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(strings.Split(strings.Trim(target, string(filepath.Separator)), string(filepath.Separator)), rest...)
	}
	return append(dirs, at)
}
