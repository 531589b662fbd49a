package overlay_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// logs keeps what is logged. Safe for concurrent use.
type logs struct{ servertest.Log }

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

func (l *logs) lines() string { return strings.ReplaceAll(l.String(), `\"`, `"`) }

func (l *logs) has(s string) bool { return strings.Contains(l.lines(), s) }

// shaky is a board that can be away.
type shaky struct {
	documents.Board
	away  atomic.Bool
	calls atomic.Int64
}

var errAway = errors.New("away")

func (s *shaky) ReadDocument(ctx context.Context, name string, known int64) (documents.Document, error) {
	if name == "overlay" {
		s.calls.Add(1)
	}
	if s.away.Load() {
		return documents.Document{}, errAway
	}
	return s.Board.ReadDocument(ctx, name, known)
}

func (s *shaky) SwapDocument(ctx context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	if s.away.Load() {
		return documents.Document{}, errAway
	}
	return s.Board.SwapDocument(ctx, name, was, d)
}

// boardOnly is a board, and a store that allows everything, without goroutines.
type boardOnly struct {
	mu    sync.Mutex
	all   map[string]documents.Document
	ahead time.Duration // of the process's clock
}

func (b *boardOnly) set(ahead time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead = ahead
}

func (b *boardOnly) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.all)
}

func (b *boardOnly) ReadDocument(_ context.Context, name string, known int64) (documents.Document, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.all[name]
	d.Now = time.Now().Add(b.ahead).UnixMicro()
	return d, nil
}

func (b *boardOnly) SwapDocument(_ context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[name].Version != was {
		return documents.Document{}, documents.ErrChanged
	}
	d.Version = max(was, d.Version) + 1
	b.all[name] = d
	return d, nil
}

func (b *boardOnly) Take(_ context.Context, ops []weir.Op) error {
	for i := range ops {
		o := &ops[i]
		o.Decision = weir.Decision{Limit: o.Limit, Remaining: o.Limit.Burst - o.Cost}
		if o.Cost > o.Limit.Burst {
			o.Decision.RetryAfter = weir.Never
		}
	}
	return nil
}

func (b *boardOnly) TakeOne(context.Context, string, *weir.Limit, int64) (weir.Decision, error) {
	return weir.Decision{}, errors.New("not asked")
}

func (b *boardOnly) Close() error { return nil }
