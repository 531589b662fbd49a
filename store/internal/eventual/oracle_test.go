package eventual

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
)

// oracleOf returns what decides spends of a limit at instants that never fall.
func oracleOf(t *testing.T, l *weir.Limit) func(at, cost int64) (left int64, ok bool) {
	var now atomic.Int64
	s := memory.New(memory.Options{MaxBytes: 1 << 24, Now: now.Load})
	t.Cleanup(func() { s.Close() })
	return func(at, cost int64) (int64, bool) {
		now.Store(at)
		d, err := s.TakeOne(context.Background(), "k", l, cost)
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining, d.Allowed()
	}
}
