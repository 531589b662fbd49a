package rules

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
)

// Live is a set of rules that follows its files. It is safe for concurrent use.
type Live struct {
	paths []string
	opt   Options
	set   atomic.Pointer[limits.Set]

	// reload is held while files are read, so that attempts have an order.
	reload sync.Mutex
	// seen is the hash of the last attempt, and of its error if the files
	// could not be read; hash is that of the set in use. Requires: reload.
	seen, hash string

	mu      sync.Mutex
	status  Status
	changed chan struct{}
}

var (
	_ weir.Rules   = (*Live)(nil)
	_ weir.Catalog = (*Live)(nil)
)

// Status says what a Live decides by, and how its last reload went.
type Status struct {
	// Generation counts the sets that were put in use. It grows by one each
	// time the rules change.
	Generation uint64
	// LoadedAt is when the set in use was loaded.
	LoadedAt time.Time
	// Hash identifies the contents of the set in use.
	Hash string
	// Files are those of the set in use.
	Files []string
	// Rules is how many rules the set in use has.
	Rules int
	// Warnings of the set in use.
	Warnings Errors
	// Err is the error of the last attempt, nil if it succeeded; FailedAt is
	// when it failed. The set in use is then the last good one.
	Err      error
	FailedAt time.Time
	// Successes and Failures count the attempts.
	Successes, Failures uint64
}

// Open loads the files at paths, as Load does, for a Live.
func Open(paths []string, opt Options) (*Live, error) {
	l := &Live{paths: paths, opt: opt.orDefaults(), changed: make(chan struct{})}
	l.set.Store(limits.NewSet(l.opt.Layers...))
	if err := l.Reload(); err != nil && !opt.StartEmpty {
		return nil, err
	}
	return l, nil
}

// Fixed returns a Live of a set that no file changes.
func Fixed(set *limits.Set) *Live {
	l := &Live{opt: Options{}.orDefaults(), changed: make(chan struct{})}
	l.set.Store(set)
	return l
}

// Match implements weir.Rules by the set in use.
func (l *Live) Match(dst []weir.Op, r *weir.Request) []weir.Op { return l.set.Load().Match(dst, r) }

// KeyLists implements [weir.Catalog].
func (l *Live) KeyLists(domain string) []weir.KeyList { return l.set.Load().KeyLists(domain) }

// Exempts implements [weir.Catalog].
func (l *Live) Exempts(r *weir.Request) bool { return l.set.Load().Exempts(r) }

// Misspelt implements [weir.Catalog].
func (l *Live) Misspelt(r *weir.Request) string { return l.set.Load().Misspelt(r) }

// Unmatched says of the set in use what [limits.Set.Unmatched] does.
func (l *Live) Unmatched(r *weir.Request) string { return l.set.Load().Unmatched(r) }

// Set returns the set in use.
func (l *Live) Set() *limits.Set { return l.set.Load() }

// Domains returns those of the set in use, sorted.
func (l *Live) Domains() []string { return l.Set().Domains() }

// Status returns what is in use and how the last attempt went.
func (l *Live) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Changed returns a channel that is closed at the next attempt to load, be it
// good or bad.
func (l *Live) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Reload reads the files now and puts them in use if they have no fault. Else
// it returns the faults, and the last good set stays. Counters go on.
func (l *Live) Reload() error { return l.loadFiles(true) }

// loadFiles reads the files. Unless forced it does nothing if they are as they were
// at the last attempt.
func (l *Live) loadFiles(force bool) error {
	if l.paths == nil {
		return nil // fixed
	}
	l.reload.Lock()
	defer l.reload.Unlock()
	sources, err := readAll(l.paths, l.opt)
	seen := hashSources(sources)
	if err != nil {
		seen = err.Error()
	}
	if seen == l.seen && !force {
		return nil
	}
	l.seen = seen
	var next loaded
	if err == nil {
		next, err = compile(sources, l.opt)
	}
	if err != nil {
		l.recordFailure(err)
		return err
	}
	var begun []limits.Restart
	if l.hash != next.hash {
		old := l.set.Load()
		begun = next.set.Restarts(old, l.opt.Restarts)
		next.set.Inherit(old)
		l.hash = next.hash
		l.set.Store(next.set)
	}
	l.succeeded(&next, force)
	warnOfRestarts(l.opt.Logger, begun)
	return nil
}

func (l *Live) recordFailure(err error) {
	l.mu.Lock()
	l.status.Err, l.status.FailedAt = err, time.Now()
	l.status.Failures++
	in := l.status
	l.announce()
	l.mu.Unlock()
	if in.Generation == 0 && !l.opt.StartEmpty {
		return // Open returns it
	}
	l.opt.Logger.Error("rules reload failed; the last good ones stay in use", "err", err, "generation", in.Generation, "hash", in.Hash)
}

// succeeded notes what is in use. What was already in use is worth a line
// in the log only to who asked for it, or after a failure.
func (l *Live) succeeded(in *loaded, asked bool) {
	l.mu.Lock()
	s := &l.status
	changed := s.Generation == 0 || s.Hash != in.hash
	if changed {
		s.Generation++
		s.LoadedAt, s.Hash, s.Files, s.Rules, s.Warnings = time.Now(), in.hash, in.set.Files(), in.rules, in.warnings
	}
	level, msg := slog.LevelInfo, "rules loaded"
	if !changed {
		msg = "rules reloaded, unchanged"
		if !asked && s.Err == nil {
			level = slog.LevelDebug
		}
	}
	s.Err = nil
	s.Successes++
	generation := s.Generation
	l.announce()
	l.mu.Unlock()
	l.opt.Logger.Log(context.Background(), level, msg, "generation", generation, "hash", in.hash,
		"files", in.files, "rules", in.rules, "warnings", len(in.warnings))
	if changed {
		for _, w := range in.warnings {
			l.opt.Logger.Warn("rules warning", "at", w.Error())
		}
	}
}

// announce wakes who waits for an attempt. Requires: mu.
func (l *Live) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// maxRestarts is how many limits that begin anew are named in the log.
const maxRestarts = 5

// warnOfRestarts says in one line which limits begin anew.
func warnOfRestarts(log *slog.Logger, begun []limits.Restart) {
	if len(begun) == 0 {
		return
	}
	var names []string
	for i := range begun[:min(len(begun), maxRestarts)] {
		names = append(names, begun[i].String())
	}
	if n := len(begun) - maxRestarts; n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	log.Warn("limits count from zero since this reload; each client may use the old and the new count within one period",
		"limits", len(begun), "which", strings.Join(names, "; "))
}
