// Package cooldown remembers which keys to leave alone until when.
package cooldown

import (
	"sync"
	"time"
)

// maxPaused is how many keys can be paused at a time.
const maxPaused = 4096

// Set is the keys that are to be left alone for a while. The zero value is empty.
// Safe for concurrent use.
type Set struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// Left returns how long key is to be left alone yet.
func (p *Set) Left(key string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.until[key].Sub(now) // below zero for a key that is not there
	if left <= 0 {
		delete(p.until, key)
		return 0
	}
	return left
}

// Add leaves key alone for wait at least. When too many keys are, the one that
// would be free first is.
func (p *Set) Add(key string, now time.Time, wait time.Duration) {
	until := now.Add(wait)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until[key].After(until) {
		return
	}
	if p.until == nil {
		p.until = map[string]time.Time{}
	}
	p.until[key] = until
	if len(p.until) <= maxPaused {
		return
	}
	first := key
	for k, u := range p.until {
		switch {
		case !u.After(now):
			delete(p.until, k)
		case u.Before(p.until[first]):
			first = k
		}
	}
	if len(p.until) > maxPaused {
		delete(p.until, first)
	}
}
