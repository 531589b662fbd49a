package node

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

const (
	// maxReloads is how many attempts to read the rules are remembered, maxChanges
	// how many lines of what one changed, each of at most maxChange bytes.
	maxReloads, maxChanges, maxChange = 50, 20, 300
)

// attempt is one to read the rules files.
type attempt struct {
	At time.Time `json:"at"`
	// By is start, signal, or files: they had changed.
	By string `json:"by"`
	// Number counts attempts from one. Of two that came at once the first may be
	// missing.
	Number uint64 `json:"number"`
	// Generation, Hash and Rules are of the set that was in use afterwards.
	Generation uint64 `json:"generation"`
	Hash       string `json:"hash"`
	Rules      int    `json:"rules"`
	// Error is why what was read was refused.
	Error string `json:"error,omitempty"`
	// Removed and Added are limits that are gone and new, in words; Left is how many
	// more there are.
	Removed []string `json:"removed,omitempty"`
	Added   []string `json:"added,omitempty"`
	Left    int      `json:"omitted,omitempty"`
}

// reloads remembers how the last attempts to read the rules files went. Safe for
// concurrent use.
type reloads struct {
	mu sync.Mutex
	// asked says that an attempt was asked for that has not ended.
	asked bool
	last  []attempt // the newest last
	lines []string  // of the set in use, sorted
}

// noteAttempt remembers an attempt, unless it was noted before, and logs how many limits it
// changed.
func (h *reloads) noteAttempt(live *rules.Live, log *slog.Logger) {
	s := live.Status()
	h.mu.Lock()
	defer h.mu.Unlock()
	a := attempt{At: s.LoadedAt, By: "files", Number: s.Successes + s.Failures, Generation: s.Generation, Hash: s.Hash, Rules: s.Rules}
	switch n := len(h.last); {
	case n == 0:
		a.By = "start"
	case h.last[n-1].Number >= a.Number:
		return
	default:
		a.At = time.Now()
		if h.asked {
			a.By = "signal"
		}
	}
	if s.Err != nil {
		a.At, a.Error = s.FailedAt, s.Err.Error()
	}
	lines := limitLines(live.Set())
	if len(h.last) > 0 && s.Err == nil {
		var removed, added int
		a.Removed, removed = without(h.lines, lines)
		a.Added, added = without(lines, h.lines)
		if a.Left = removed + added; len(a.Removed)+len(a.Added) > 0 {
			log.Info("limits changed; GET /rules on the admin address lists them", "generation", a.Generation, "added", len(a.Added)+added, "removed", len(a.Removed)+removed)
		}
	}
	h.lines = lines
	a.At = a.At.UTC()
	h.last = append(h.last, a)
	h.last = h.last[max(len(h.last)-maxReloads, 0):]
}

// limitLines returns a line for each limit of a set, sorted.
func limitLines(set *limits.Set) (lines []string) {
	for _, r := range set.FileRules() {
		add := func(of string, limits []*limits.Limit) {
			for _, l := range limits {
				lines = append(lines, r.Domain+" "+r.Path+of+": "+l.String())
			}
		}
		add("", r.Limits)
		for _, c := range r.Tiers {
			add(", "+r.TierBy+" "+c.Value, c.Limits)
		}
		for _, c := range r.Overrides {
			add(", for "+c.Value, c.Limits)
		}
	}
	slices.Sort(lines)
	return lines
}

// without returns the lines of one sorted list that another does not have, as many
// as are told, and how many more there are.
func without(one, other []string) (lines []string, left int) {
	for _, l := range one {
		if _, found := slices.BinarySearch(other, l); found {
			continue
		}
		if len(lines) == maxChanges {
			left++
			continue
		}
		lines = append(lines, strings.ToValidUTF8(l[:min(len(l), maxChange)], ""))
	}
	return lines, left
}

// listAttempts returns the attempts, the newest first.
func (h *reloads) listAttempts() []attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.last)
	slices.Reverse(out)
	return out
}

// setAsked says that an attempt is asked for, or has ended.
func (h *reloads) setAsked(asked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = asked
}

// followRules calls look now, and after each attempt to read the rules, until ctx ends.
func followRules(ctx context.Context, live *rules.Live, look func()) {
	for {
		changed := live.Changed()
		look()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
