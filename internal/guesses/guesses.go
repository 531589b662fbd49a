// Package guesses bounds how often a client may be wrong about a secret: a token,
// a password. It is limited by this project's own algorithms.
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

// Strong is how many bytes a secret has that nobody finds by trying: 128 bits, if it is
// random.
const Strong = 16

// Beyond these bounds a client may be compared once a second, and all together ten times.
// So many wait for their turn.
const (
	waiting      = 8
	waitingInAll = 64
)

// Bound limits guesses. Safe for concurrent use. Close it.
type Bound struct {
	store *memory.Store
	// one limits a client, all of them together; turn and turns those that wait.
	one, all, turn, turns *weir.Limit
	wrong                 atomic.Uint64
	faults                *faults.Log
}

// New returns a bound of each guesses a minute of one client and of total guesses
// of all; zero means Each and Total. log is told of wrong guesses, at most once a
// second; nil means nowhere.
func New(each, total int64, log *slog.Logger) (*Bound, error) {
	bucket := func(scope string, count int64) *weir.Limit {
		return &weir.Limit{Scope: scope, Algorithm: algorithm.TokenBucket, Count: count, Period: time.Minute}
	}
	queue := func(scope string, count, burst int64) *weir.Limit {
		return &weir.Limit{Scope: scope, Algorithm: algorithm.LeakyQueue, Count: count, Period: time.Second, Burst: burst}
	}
	b := &Bound{
		faults: faults.New(log), one: bucket("guesses of a client", cmp.Or(each, Each)), all: bucket("guesses", cmp.Or(total, Total)),
		turn: queue("turns of a client", 1, waiting), turns: queue("turns", Total/60, waitingInAll),
	}
	for _, l := range []*weir.Limit{b.one, b.all, b.turn, b.turns} {
		if err := l.Compile(); err != nil {
			return nil, err
		}
	}
	b.store = memory.New(memory.Options{MaxBytes: memory.MinBytes})
	return b, nil
}

// Close frees what the bound counts by.
func (b *Bound) Close() error { return b.store.Close() }

// Check decides on a guess of a secret by a client at what ("admin token"); right is what
// the comparison said. A right guess of a strong secret is let in at once, whatever others
// try from the same address. A weak one could be found by trying: beyond the bound nobody
// hears what the comparison said before it is the client's turn, or at all if too many wait.
//
// Wrong guesses alone count. wait is how long the client has to stay away, zero for not at
// all. A nil bound counts none.
func (b *Bound) Check(ctx context.Context, what, client, secret string, right bool) (ok bool, wait time.Duration) {
	return b.check(ctx, what, client, secret, right, true)
}

// check is Check for one who waits for a turn, or goes without.
func (b *Bound) check(ctx context.Context, what, client, secret string, right, waits bool) (ok bool, wait time.Duration) {
	strong := len(secret) >= Strong
	if b == nil || right && strong {
		return right, 0
	}
	if _, wait = b.take(ctx, client, b.one, b.all); wait > 0 && !strong {
		if !waits {
			return false, wait
		}
		if late := b.await(ctx, client); late > 0 {
			b.faults.Report("guesses refused unread: too many wait", errors.New("from "+client))
			return false, late
		}
	}
	switch {
	case !right:
		b.wrong.Add(1)
		b.faults.Report("wrong "+what, errors.New("from "+client))
		return false, wait
	case wait == 0: // it was charged
		err := b.store.Take(ctx, []weir.Op{{Key: client, Limit: b.one, Cost: 1, Role: weir.Always, Verb: weir.Refund}, {Limit: b.all, Cost: 1, Role: weir.Always, Verb: weir.Refund}})
		if err != nil {
			b.faults.Report("right guess not given back", err)
		}
	}
	return true, 0
}

// take charges a client, and all together, and returns how long it is to wait, or to stay away
// stay. What one client is refused does not count for all.
func (b *Bound) take(ctx context.Context, client string, one, all *weir.Limit) (delay, stay time.Duration) {
	for _, x := range []weir.Op{{Key: client, Limit: one}, {Limit: all}} {
		d, err := b.store.TakeOne(ctx, x.Key, x.Limit, 1)
		switch {
		case err != nil:
			return 0, time.Second // what cannot be counted is not answered
		case !d.Allowed():
			return 0, d.RetryAfter
		}
		delay = max(delay, d.Delay(1))
	}
	return delay, 0
}

// await waits for a client's turn, and returns how long it is to stay away if it gets none.
func (b *Bound) await(ctx context.Context, client string) (stay time.Duration) {
	delay, stay := b.take(ctx, client, b.turn, b.turns)
	if stay > 0 {
		return stay
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return 0
	case <-ctx.Done():
		return time.Second
	}
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
