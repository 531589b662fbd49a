package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// maxBans is how many keys can be banned at a time.
const maxBans = 10_000

// Bans are rules under which single keys are refused for a time, whatever the
// rules that they stand before allow. Give them to weir.New in the place of
// the rules. Safe for concurrent use.
//
// The list of banned keys is this node's; how long each is banned is told by
// the store's clock. While nobody is banned they cost one atomic load.
type Bans struct {
	rules weir.Rules
	// list is replaced, never changed. Nil means that nobody is banned.
	list atomic.Pointer[map[counter]*weir.Limit]
	mu   sync.Mutex // held to replace list
	made int64      // how many bans there ever were
}

// counter names one key of one limit.
type counter struct {
	limit uint64
	key   string
}

// NewBans returns rules with nobody banned. The limits of rules must be
// compiled.
func NewBans(rules weir.Rules) *Bans { return &Bans{rules: rules} }

// Match implements weir.Rules.
func (b *Bans) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	from := len(dst)
	dst = b.rules.Match(dst, r)
	list := b.list.Load()
	if list == nil || r.Verb == weir.Force || r.Verb == weir.Refund {
		return dst
	}
	for i, n := from, len(dst); i < n; i++ {
		o := &dst[i]
		if o.Limit == nil {
			continue
		}
		if ban := (*list)[counter{o.Limit.ID(), o.Key}]; ban != nil {
			// Only looked at: the ban was spent when it was imposed, and is
			// over when the store says so.
			dst = append(dst, weir.Op{Key: banKey, Limit: ban, Cost: 1, Role: weir.Ban, Verb: weir.Peek})
		}
	}
	return dst
}

// banKey is the one key of every ban: each has a limit of its own.
const banKey = "banned"

// ban refuses the key of o for d, or no longer if d is zero.
func (b *Bans) ban(ctx context.Context, lim *weir.Limiter, o *weir.Op, d time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	next, err := b.live(ctx, lim)
	if err != nil {
		return err
	}
	at := counter{o.Limit.ID(), strings.Clone(o.Key)}
	delete(next, at)
	if d > 0 {
		if len(next) >= maxBans {
			return errBans
		}
		b.made++
		l := &weir.Limit{
			Name: o.Limit.Name + " (banned)", Scope: fmt.Sprintf("\x1fbanned\x1f%d", b.made),
			Algorithm: algorithm.FixedWindow, Count: 1, Period: d, Params: weir.Params{Anchor: weir.AnchorFirst},
		}
		if err := l.Compile(); err != nil {
			return err
		}
		if _, err := lim.Apply(ctx, []weir.Op{{Key: banKey, Limit: l, Cost: 1, Verb: weir.Force}}); err != nil {
			return err
		}
		next[at] = l
	}
	if len(next) == 0 {
		b.list.Store(nil)
	} else {
		b.list.Store(&next)
	}
	return nil
}

var errBans = errors.New("httpapi: too many keys are banned")

// live returns a copy of the list without those that are over.
func (b *Bans) live(ctx context.Context, lim *weir.Limiter) (map[counter]*weir.Limit, error) {
	next := map[counter]*weir.Limit{}
	list := b.list.Load()
	if list == nil {
		return next, nil
	}
	for at, l := range *list {
		d, err := lim.Apply(ctx, []weir.Op{{Key: banKey, Limit: l, Cost: 1, Verb: weir.Peek}})
		if err != nil {
			return nil, err
		}
		if !d.Allowed() {
			next[at] = l
		}
	}
	return next, nil
}
