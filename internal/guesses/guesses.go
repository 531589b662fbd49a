// Package guesses bounds how often a client may be wrong about a secret: a token,
// a password. It is limited by this project's own limiter.
package guesses

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/store/memory"
)

// Bounds of a [Bound] in a minute.
const (
	Each  = 10  // of one client
	Total = 600 // of all together
)

// Bound limits guesses. Safe for concurrent use. Close it.
type Bound struct {
	store *memory.Store
	// one limits a client, all of them together.
	one, all *weir.Limiter
	wrong    atomic.Uint64
	faults   *faults.Log
}

// New returns a bound of each guesses a minute of one client and of total guesses
// of all; zero means Each and Total. log is told of wrong guesses, at most once a
// second; nil means nowhere.
func New(each, total int64, log *slog.Logger) (*Bound, error) {
	b := &Bound{store: memory.New(memory.Options{MaxBytes: memory.MinBytes}), faults: faults.New(log)}
	limit := func(scope string, count int64) (*weir.Limiter, error) {
		rule := weir.PerMinute(count, algorithm.TokenBucket)
		rule.Scope = scope
		return weir.New(b.store, weir.Limits{rule}, weir.Options{})
	}
	var err error
	if b.one, err = limit("guesses of a client", cmp.Or(each, Each)); err == nil {
		b.all, err = limit("guesses", cmp.Or(total, Total))
	}
	if err != nil {
		b.store.Close()
		return nil, err
	}
	return b, nil
}

// Close frees what the bound counts by.
func (b *Bound) Close() error { return b.store.Close() }

// Try decides on one more attempt of a client, right or wrong. What one client is
// refused does not count for all.
func (b *Bound) Try(ctx context.Context, client string) (weir.Decision, error) {
	d, err := b.one.Take(ctx, client, 1)
	if err != nil || !d.Allowed() {
		return d, err
	}
	return b.all.Take(ctx, "", 1)
}

// Wrong counts a wrong guess of a client at what ("admin token") and returns how
// long the client has to wait before the next one is answered, zero for not at all.
// A right guess is not to be counted, so that whoever knows the secret is never
// refused for what others try from the same address.
func (b *Bound) Wrong(ctx context.Context, what, client string) time.Duration {
	b.wrong.Add(1)
	b.faults.Report("wrong "+what, errors.New("from "+client))
	d, err := b.Try(ctx, client)
	switch {
	case err != nil:
		return time.Second // what cannot be counted is not answered
	case d.Allowed():
		return 0
	}
	return d.RetryAfter
}

// Count returns how many guesses were wrong since the start.
func (b *Bound) Count() uint64 { return b.wrong.Load() }

// Client names who guesses by the remote address of a connection, as
// identity.AppendClient has it: the address, of IPv6 the /64 that one machine can have
// to itself.
func Client(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return "a local socket"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return string(identity.AppendClient(nil, addr))
}
