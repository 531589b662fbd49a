package redis

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A safeBuffer is written to by whoever logs.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.text.String(), text)
}

// A store that is opened late fails until its servers are there, and decides from then on.
func TestOpensLate(t *testing.T) {
	t.Parallel()
	_, _, sentinels := servertest.RedisSentinels(t)
	for _, c := range []struct {
		scheme, path string
		servers      []*servertest.RedisServer
	}{
		{"redis", "", newRing(t, 1)},
		{"redis+ring", "", newRing(t, 2)},
		{"redis+cluster", "", servertest.RedisCluster(t, 1)},
		{"redis+sentinel", "/primary", sentinels},
	} {
		t.Run(c.scheme, func(t *testing.T) {
			t.Parallel()
			for _, s := range c.servers {
				s.Kill(t)
			}
			url := urlOf(c.scheme, c.servers) + c.path
			refusesToOpen(t, url, Options{Timeout: long}, "nobody listens there")
			var log safeBuffer
			s := open(t, url, Options{Timeout: long, Late: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err := s.NotReached(); !contains(err, "nobody listens there") || !Unreachable(err) || !contains(err, c.servers[0].Addr) {
				t.Errorf("not reached: %v", err)
			}
			l := perHour(t, 1000, algorithm.TokenBucket)
			if _, err := s.TakeOne(t.Context(), "k", l, 1); !errors.Is(err, errLost) {
				t.Errorf("a decision: %v", err)
			}
			if _, _, err := s.Inspect(t.Context(), "k", l); !errors.Is(err, errLost) {
				t.Errorf("a look: %v", err)
			}
			if _, err := s.ReadDocument(t.Context(), "d", 0); !errors.Is(err, errLost) {
				t.Errorf("a document: %v", err)
			}
			for _, server := range c.servers {
				server.Restart(t)
			}
			servertest.Await(t, "the servers to be reached", func() bool { return s.NotReached() == nil && s.countLostShards() == 0 })
			servertest.Await(t, "a decision", func() bool {
				d, err := s.TakeOne(t.Context(), "k", l, 1)
				return err == nil && d.Allowed()
			})
			if _, err := s.SwapDocument(t.Context(), "d", 0, documents.Document{}); err != nil {
				t.Errorf("a document: %v", err)
			}
			servertest.Await(t, "the log to say so", func() bool { return log.has("store reached") })
			for i := range 100 {
				if _, err := s.TakeOne(t.Context(), fmt.Sprint(i), l, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// What answers late and cannot keep limits is never asked for any, and the log says why; what
// answers at once so is an error.
func TestOpensLateBeforeAWrongServer(t *testing.T) {
	t.Parallel()
	wrong := servertest.Redis(t, "--cluster-enabled", "yes")
	url := "redis://" + wrong.Addr
	refusesToOpen(t, url, Options{Timeout: long, Late: true}, "redis+cluster://")
	wrong.Kill(t)
	var log safeBuffer
	s := open(t, url, Options{Timeout: long, Late: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	wrong.Restart(t)
	servertest.Await(t, "the log to say what is wrong", func() bool { return log.has("store unavailable; will retry") && log.has("redis+cluster://") })
	if _, err := s.TakeOne(t.Context(), "k", perHour(t, 1, algorithm.TokenBucket), 1); !errors.Is(err, errLost) || s.NotReached() == nil {
		t.Errorf("a decision: %v", err)
	}
	if log.has("store reached") {
		t.Error("the log says that it was reached")
	}
}
