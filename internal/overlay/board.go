package overlay

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/documents"
)

// A board keeps the documents, and knows the store's time as far as it was told with
// them. Safe for concurrent use.
type board struct {
	documents.Board
	logger *slog.Logger
	// nowFunc tells the time instead, if it is not nil.
	nowFunc func() int64
	base    time.Time
	ahead   atomic.Int64 // of the time since base, microseconds
}

func newBoard(opt *Options) *board {
	b := &board{Board: opt.Board, logger: opt.Logger, nowFunc: opt.Now, base: time.Now()}
	b.ahead.Store(b.base.UnixMicro())
	return b
}

func (b *board) elapsed() int64 { return int64(time.Since(b.base) / time.Microsecond) }

// storeTime returns the store's time.
func (b *board) storeTime() int64 {
	if b.nowFunc != nil {
		return b.nowFunc()
	}
	return b.elapsed() + b.ahead.Load()
}

// ReadDocument implements documents.Board, and notes the time.
func (b *board) ReadDocument(ctx context.Context, name string, known int64) (documents.Document, error) {
	sent := b.elapsed()
	d, err := b.Board.ReadDocument(ctx, name, known)
	if err == nil && d.Now > 0 {
		b.ahead.Store(d.Now - (sent+b.elapsed())/2)
	}
	return d, err
}
