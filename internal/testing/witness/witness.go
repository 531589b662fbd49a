// Package witness is for tests: an observer that notes what it is told of clients
// and of how their requests ended.
package witness

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// Witness is a weir.Observer and weir.ResultObserver. Safe for concurrent use. Make
// it with New.
type Witness struct {
	mu    sync.Mutex
	notes []string
	more  chan struct{} // holds a token when there is something new
}

// New returns a witness who knows nothing.
func New() *Witness { return &Witness{more: make(chan struct{}, 1)} }

// facts returns what is known of the client: "unknown" if nothing is.
func facts(r *weir.Request) string {
	f := r.Facts
	if f == nil {
		return "unknown"
	}
	address := ""
	if a := f.Address(); a.IsValid() {
		address = a.String()
	}
	return strings.Join([]string{address, f.Method(), f.Host(), f.Path(), f.User(), f.Tier(), f.Agent()}, " ")
}

func (w *Witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// Observe implements weir.Observer.
func (w *Witness) Observe(r *weir.Request, d weir.Decision, err error) {
	switch {
	case err != nil:
		w.note("failed: %s", facts(r))
	case d.Allowed():
		w.note("allowed: %s", facts(r))
	default:
		w.note("refused: %s", facts(r))
	}
}

// ObserveResult implements weir.ResultObserver.
func (w *Witness) ObserveResult(r *weir.Request, res weir.Result) {
	if res.Duration <= 0 || len(r.Ops()) == 0 {
		w.note("ended: %d after %s with %d ops", res.Code, res.Duration, len(r.Ops()))
		return
	}
	w.note("ended: %d: %s", res.Code, facts(r))
}

// Notes returns what was noted since the last call, and forgets it.
func (w *Witness) Notes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.notes
	w.notes = nil
	return out
}

// Wait is Notes as soon as there are n, or half a minute has passed: clients hear
// of the end of a request before observers do.
func (w *Witness) Wait(n int) (all []string) {
	deadline := time.After(30 * time.Second)
	for {
		if all = append(all, w.Notes()...); len(all) >= n {
			return all
		}
		select {
		case <-w.more:
		case <-deadline:
			return all
		}
	}
}

var (
	_ weir.Observer       = (*Witness)(nil)
	_ weir.ResultObserver = (*Witness)(nil)
)
