package memcached

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestExpiry: a key lives at least until its window has ended on a clock that is
// nearly grace behind, in Memcached's reading of the number, and never for ever.
func TestExpiry(t *testing.T) {
	const wall = 1_795_000_000
	for _, left := range []int64{1, 999_999, 1_000_000, 1_000_001, 59_000_000, (maxRelative - grace) * 1_000_000,
		(maxRelative-grace)*1_000_000 + 1, 366 * 86_400 * 1_000_000} {
		n, err := encodeExpiry(left, wall)
		if err != nil {
			t.Fatal(err)
		}
		lives := int64(n)
		if n > maxRelative {
			lives -= wall
		}
		// Its clock ticks once a second, so up to a second is lost.
		if spare := lives*1_000_000 - 1_000_000 - left; spare < (grace-1)*1_000_000 || spare > (graceLong+grace+1)*1_000_000 {
			t.Errorf("a window with %d µs to go is kept for %d s", left, lives)
		}
	}
	if n, err := encodeExpiry(366*86_400*1_000_000, math.MaxInt32-400*86_400); err != nil {
		t.Errorf("the last year: %d, %v", n, err)
	}
	if n, err := encodeExpiry(366*86_400*1_000_000, math.MaxInt32-300*86_400); err == nil || !strings.Contains(err.Error(), "2038") {
		t.Errorf("a window that ends too late: %d, %v", n, err)
	}
}

// TestKey: keys are safe whatever they are made of, and differ in scope, key and
// window.
func TestKey(t *testing.T) {
	s := keyStore(t, 1)
	all := map[string]string{}
	for _, scope := range []string{"a", "ab", "\x1fsoft", strings.Repeat("s", 5000)} {
		for _, key := range []string{"", "b", "c", "\r\nflush_all\r\n", strings.Repeat("k", 5000), "é\x00"} {
			for _, end := range []int64{1, 1_795_000_000_000_000} {
				l := &weir.Limit{Scope: scope, Algorithm: algorithm.FixedWindow}
				var c counter
				s.locateCounter(&c, key, l, end)
				if len(c.key) > 250 || !strings.HasPrefix(c.key, s.prefix) || strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
					t.Errorf("key %q", c.key)
				}
				what := fmt.Sprintf("%.9q %.9q %d", scope, key, end)
				if other, ok := all[c.key]; ok {
					t.Errorf("%s and %s share a key", what, other)
				}
				all[c.key] = what
			}
		}
	}
}

// TestHash: nodes of every version choose the same server.
func TestHash(t *testing.T) {
	for text, want := range map[string]uint64{"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c, "foobar": 0x85944171f73967e8} {
		if got := hash(text); got != want {
			t.Errorf("%q: %#x, want %#x", text, got, want)
		}
	}
}

// TestServersMoveTheirShare: a sixth server gets a sixth of the keys, and no key
// moves between the others, in whatever order they are named.
func TestServersMoveTheirShare(t *testing.T) {
	const keys = 60_000
	five, six := keyStore(t, 5), keyStore(t, 6)
	six.servers[0], six.servers[4] = six.servers[4], six.servers[0]
	moved, share := 0, map[string]int{}
	for id := range uint64(keys) {
		before, after := five.servers[five.serverOf(mixBits(id))].addr, six.servers[six.serverOf(mixBits(id))].addr
		share[after]++
		if before == after {
			continue
		}
		moved++
		if after != six.servers[5].addr {
			t.Fatalf("a key moved from %s to %s", before, after)
		}
	}
	for addr, n := range share {
		if n < keys/6*9/10 || n > keys/6*11/10 {
			t.Errorf("%s has %d of %d keys", addr, n, keys)
		}
	}
	if moved != share[six.servers[5].addr] {
		t.Errorf("%d keys moved, the new server has %d", moved, share[six.servers[5].addr])
	}
}

func keyStore(t *testing.T, servers int) *Store {
	o := Options{Prefix: strings.Repeat("p", maxPrefix)}
	for n := range servers {
		o.Servers = append(o.Servers, fmt.Sprintf("cache%d:11211", n))
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestLongWindows: windows of more than 30 days are kept, and a server that would
// forget them at once, as its clock is ahead, is an error.
func TestLongWindows(t *testing.T) {
	addr, _ := servertest.Memcached(t, "")
	const period = 100 * 24 * time.Hour
	begin := func() int64 { return 200 * period.Microseconds() } // of a window
	s, err := New(Options{Servers: []string{addr}, Timeout: 5 * time.Second, Now: begin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l := &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Period: period}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil || d.Allowed() != (i < 3) {
			t.Errorf("request %d: %+v, %v", i, d, err)
		}
	}
	const longAgo = maxRelative + 1
	sl := <-s.servers[0].slots
	defer func() { s.servers[0].slots <- sl }()
	if n, err := sl.incrementKey(time.Now().Add(5*time.Second), "k", 1, longAgo); err == nil || !strings.Contains(err.Error(), "set the clock of the server") {
		t.Errorf("a window that has ended on the server's clock: %d, %v", n, err)
	}
}
