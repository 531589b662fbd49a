package counter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func openMemcached(t *testing.T, o counter.MemcachedOptions) *counter.Memcached {
	t.Helper()
	m, err := counter.OpenMemcached(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMemcachedCounts(t *testing.T) {
	t.Parallel()
	addr, _ := servertest.Memcached(t, "")
	m := openMemcached(t, counter.MemcachedOptions{Servers: []string{addr}})
	// Hits of one request do not see each other.
	want(t, "both", counts(t, m, hit("a", 1), hit("a", 2), hit("b", 5)), "1 2 5")
	m.WaitForAdds()
	want(t, "then", counts(t, m, hit("a", 0), hit("b", 6)), "3 11")
	m.WaitForAdds()
	want(t, "given back", counts(t, m, back("b", 2), back("a", 9), back("none", 1)), "9 0 0")
	m.WaitForAdds()
	// "11" became "9 ".
	want(t, "after that", counts(t, m, hit("a", 0), hit("b", 0), hit("none", 0)), "0 9 0")
	m.WaitForAdds()
	if s := m.Stats(); s.MultiGets.Load() != 4 || s.Adds.Load() != 3 || s.KeysRequested.Load() != 11 || s.KeysFound.Load() != 6 || s.IncrementMisses.Load() == 0 {
		t.Errorf("%+v", s)
	}
	client := memcache.New(addr)
	defer client.Close()
	if err := client.Set(&memcache.Item{Key: "big", Value: []byte("2147483648")}); err != nil {
		t.Fatal(err)
	}
	want(t, "a count of 2^31", counts(t, m, hit("big", 1)), "1")
	m.WaitForAdds()
}

func TestMemcachedAtTheSameTime(t *testing.T) {
	t.Parallel()
	addr, _ := servertest.Memcached(t, "")
	m := openMemcached(t, counter.MemcachedOptions{Servers: []string{addr}, MaxIdleConns: 64})
	for i := range 20 {
		key := fmt.Sprint("k", i)
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() { counts(t, m, hit(key, 1)) })
		}
		wg.Wait()
		m.WaitForAdds()
		want(t, "of 40 at once, counted", counts(t, m, hit(key, 0)), "40")
	}
	if m.Stats().AddNotStored.Load() == 0 {
		t.Log("no two made a counter at the same time")
	}
}

// Memcached takes more than 30 days for a time: the counters of longer windows
// would be gone at once.
func TestMemcachedKeepsLongWindows(t *testing.T) {
	t.Parallel()
	addr, _ := servertest.Memcached(t, "")
	m := openMemcached(t, counter.MemcachedOptions{Servers: []string{addr}, JitterSeconds: 300})
	for i, days := range []int64{1, 30, 365, 40_000} {
		h := hit("days", 1)
		h.Key = append(h.Key, byte('a'+i))
		h.Period = days * 86400
		at := time.Now().Unix()
		for range 2 {
			hits := []counter.Hit{h}
			if err := m.Add(t.Context(), at, hits); err != nil {
				t.Fatal(err)
			}
			m.WaitForAdds()
			h.Count = hits[0].Count
		}
		if h.Count != 2 {
			t.Errorf("the counter of %d days stands at %d", days, h.Count)
		}
	}
}

// Without memcached requests pass, and somebody is told.
func TestMemcachedFailsOpen(t *testing.T) {
	t.Parallel()
	addr, process := servertest.Memcached(t, "")
	var said bytes.Buffer
	m := openMemcached(t, counter.MemcachedOptions{Servers: []string{addr}, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	want(t, "a key that is too long", counts(t, m, hit(strings.Repeat("k", 251), 4), hit("a", 5)), "4 5")
	m.WaitForAdds()
	if s := m.Stats(); s.MultiGetErrors.Load() != 1 || s.IncrementErrors.Load() != 1 {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(said.String(), "taken for 0") {
		t.Errorf("the log says %s", said.String())
	}
	if err := process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "without a server", counts(t, m, hit("a", 5)), "5")
	m.Close()
	if err := m.Add(t.Context(), now, []counter.Hit{hit("a", 1)}); !errors.Is(err, counter.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestMemcachedLooksServersUp(t *testing.T) {
	t.Parallel()
	one, _ := servertest.Memcached(t, "")
	two, _ := servertest.Memcached(t, "")
	var use atomic.Pointer[string]
	use.Store(&one)
	asked := make(chan struct{}, 100)
	m := openMemcached(t, counter.MemcachedOptions{Refresh: 10 * time.Millisecond, Lookup: func(context.Context) ([]string, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		if use.Load() == nil {
			return nil, errors.New("nobody knows")
		}
		return []string{*use.Load()}, nil
	}})
	want(t, "the first", counts(t, m, hit("a", 5)), "5")
	m.WaitForAdds()
	use.Store(&two)
	servertest.Await(t, "the other server", func() bool { return counts(t, m, hit("a", 0)) == "0" })
	use.Store(nil)
	for range 100 {
		<-asked
	}
	want(t, "nobody knows", counts(t, m, hit("a", 0)), "0")
	m.WaitForAdds()
	_, err := counter.OpenMemcached(t.Context(), counter.MemcachedOptions{Lookup: func(context.Context) ([]string, error) { return nil, errors.New("nobody knows") }})
	if err == nil {
		t.Error("servers that nobody knows were taken")
	}
}
