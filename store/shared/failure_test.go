package shared_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// lateFor answers nothing about a key in time.
type lateFor struct {
	weir.Store
	key string
}

func (l lateFor) Take(ctx context.Context, ops []weir.Op) error {
	if ops[0].Key == l.key {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.Store.Take(ctx, ops)
}

// TestDecisionsWithoutTheStoreAreLogged: a decision without the store is logged where no breaker
// opens too, with why and the setting, once in five seconds, and not if its caller has left.
func TestDecisionsWithoutTheStoreAreLogged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		local, store := memory.New(memory.Options{}), memory.New(memory.Options{})
		defer local.Close()
		defer store.Close()
		var log bytes.Buffer
		s, err := shared.New(lateFor{store, "late"}, shared.Options{Local: local, Timeout: 20 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		l := compiled(t, weir.PerDay(1000, algorithm.FixedWindow), func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyStrict })
		take := func(ctx context.Context, key string) {
			_ = s.Take(ctx, []weir.Op{{Key: key, Limit: l, Cost: 1}}) // of a caller who has left
		}
		const rounds = 40
		for range rounds { // about a second
			take(t.Context(), "late")
			for range 3 {
				take(t.Context(), "well")
			}
		}
		synctest.Wait()
		if text := log.String(); text != "" {
			t.Errorf("told before an outage would be: %s", text)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		told := strings.Count(log.String(), "\n")
		gone, leave := context.WithCancel(t.Context())
		leave()
		take(gone, "late")
		if st := s.Stats(); st.BreakerOpen || st.Degraded < rounds {
			t.Fatalf("%d decisions without the store, breaker open: %t", st.Degraded, st.BreakerOpen)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		text := log.String()
		if n := strings.Count(text, "\n"); n != told || n != 1 || !strings.Contains(text, "on_store_error") || !strings.Contains(text, "timeout=") {
			t.Errorf("%d lines, %d behind:\n%s", n, n-told, text)
		}
	})
}
