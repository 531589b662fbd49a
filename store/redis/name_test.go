package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/neighbor"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// FuzzTag: two keys never share a tag, and a tag never ends the braces that it
// stands between, nor is too long.
func FuzzTag(f *testing.F) {
	f.Add("", "%")
	f.Add("{a}", "%7Ba%7D")
	f.Add("a%", "a%25")
	f.Add(strings.Repeat("x", 96), strings.Repeat("x", 97))
	f.Add(strings.Repeat("{", 32), strings.Repeat("{", 33))
	f.Add("%#abc", "\x00\r\n")
	f.Add(neighbor.Key("a", "b"), neighbor.Key("a", neighbor.Key("b", "}")))
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, key := range []string{a, b} {
			got := tagForKey(key)
			if with, _, ok := neighbor.Cut(key); ok {
				if got, _, ok = strings.Cut(got, "}"); !ok || got != escaped(with) {
					t.Errorf("%q does not lie beside %q: %q", key, with, got)
				}
			}
			if got == "" || len(got) > maxTag || strings.ContainsAny(got, "{}") {
				t.Errorf("%q has the tag %q", key, got)
			}
		}
		if (tagForKey(a) == tagForKey(b)) != (a == b) {
			t.Errorf("%q and %q: %q, %q", a, b, tagForKey(a), tagForKey(b))
		}
	})
}

// All limits on a key are in the slot that the server computes, whatever the key.
func TestSlots(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t, "--cluster-enabled", "yes")
	for _, key := range []string{"", "user:42", "{", "}", "{}", "a{b}c", "%", "\x00\r\n\xff", strings.Repeat("long", 1000), "Grüße", neighbor.Key("{", "}"), neighbor.Key("user:42", "mark")} {
		name := "weir:{" + tagForKey(key) + "}:x"
		if got := r.Do(t, "CLUSTER", "KEYSLOT", name); got != int64(slotOf(tagForKey(key))) {
			t.Errorf("%q is in slot %v, we say %d", name, got, slotOf(tagForKey(key)))
		}
	}
}

// Keys of any bytes and length are counted apart.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	l := perHour(t, 1, algorithm.FixedWindow)
	for _, key := range []string{"", "%", "%25", "{", "}", "%7B", "a}:b", "a", "\x00", "\r\n", "*1\r\n$4\r\nPING\r\n", "\xff\xfe",
		strings.Repeat("x", 96), strings.Repeat("x", 97), strings.Repeat("x", 1<<20)} {
		for i, want := range []bool{true, false} {
			if d, err := s.TakeOne(t.Context(), key, l, 1); err != nil || d.Allowed() != want {
				t.Errorf("%.20q, request %d: %+v, %v", key, i, d, err)
			}
		}
	}
}

// Operators look at keys and forget them.
func TestInspectAndForget(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	for _, a := range algorithm.All {
		l := perHour(t, 10, a)
		if err := s.Check(l); err != nil {
			if !contains(err, "use sliding_window") {
				t.Errorf("%s: %v", a.Name(), err)
			}
			if _, err := s.TakeOne(t.Context(), "k", l, 1); err == nil {
				t.Errorf("%s decided", a.Name())
			}
			continue
		}
		if _, found, err := s.Inspect(t.Context(), "k", l); found || err != nil {
			t.Errorf("%s: a new key is found: %v", a.Name(), err)
		}
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 3, ID: 1}}
		if err := s.Take(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		state, found, err := s.Inspect(t.Context(), "k", l)
		if !found || err != nil || len(state) == 0 {
			t.Errorf("%s: %v, %v, %v", a.Name(), state, found, err)
		}
		for _, want := range []bool{true, false} {
			if found, err := s.Forget(t.Context(), "k", l); found != want || err != nil {
				t.Errorf("%s: forgot %v, %v", a.Name(), found, err)
			}
		}
		ops[0].Verb = weir.Peek
		if err := s.Take(t.Context(), ops); err != nil || ops[0].Decision.Remaining != 10 && ops[0].Decision.Remaining != 11 {
			t.Errorf("%s: after it was forgotten: %+v, %v", a.Name(), ops[0].Decision, err)
		}
	}
	if st := s.Stats(); st.Calls == 0 || st.Errors != 0 {
		t.Errorf("%+v", st)
	}
}

// A key lives as long as it matters, and is gone a moment later. What is refused
// writes nothing.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	for _, a := range algorithm.All {
		l := &weir.Limit{Algorithm: a, Count: 2, Period: time.Minute}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if s.Check(l) != nil {
			continue
		}
		// Alone, and with another: each is written by a script of its own.
		for _, ops := range [][]weir.Op{{{Key: "k", Limit: l, Cost: 2, ID: 1}}, {{Key: "one", Limit: l, Cost: 2, ID: 1}, {Key: "two", Limit: l, Cost: 2, ID: 1}}} {
			if err := s.Take(t.Context(), ops); err != nil || !ops[0].Charged {
				t.Fatalf("%s: %+v, %v", a.Name(), ops, err)
			}
			for _, o := range ops {
				name, err := s.Name(o.Key, l)
				if err != nil {
					t.Fatal(err)
				}
				// In milliseconds since the epoch: when it is gone, and when it stops to matter.
				gone, stops := r.Do(t, "PEXPIRETIME", name).(int64), o.Now+o.Decision.ResetAfter.Microseconds()
				if gone*1000 < stops || gone*1000 > stops+2000 {
					t.Errorf("%s, %q of %d: expires at %d ms, matters until %d µs", a.Name(), o.Key, len(ops), gone, stops)
				}
			}
		}
	}

	l := perHour(t, 5, algorithm.SlidingWindow)
	log := perHour(t, 5, algorithm.SlidingLog)
	full := []weir.Op{{Key: "k", Limit: l, Cost: 5}, {Key: "k", Limit: log, Cost: 5}}
	if err := s.Take(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the limits to be listed", func() bool {
		ls, n := &s.plans.list, 0
		ls.mu.Lock()
		defer ls.mu.Unlock()
		for _, versions := range ls.known {
			n += len(versions)
		}
		return len(ls.mine) == n
	})
	written := writes(t, r)
	for range 20 {
		for _, ops := range [][]weir.Op{{{Key: "k", Limit: l, Cost: 1}}, {{Key: "k", Limit: log, Cost: 1}}, full} {
			if err := s.Take(t.Context(), ops); err != nil || ops[0].Charged {
				t.Fatalf("%+v, %v", ops, err)
			}
		}
	}
	if now := writes(t, r); now != written {
		t.Errorf("refusals wrote: %s before, %s after", written, now)
	}
}

// writes returns how far the server's replication has come: every write moves it.
func writes(t *testing.T, r *servertest.RedisServer) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(fmt.Sprint(r.Do(t, "INFO", "commandstats"))) {
		for _, w := range []string{"set:", "del:", "pexpireat:", "rpush:", "rpop:", "ltrim:", "lset:", "zadd:", "zrem:"} {
			if name, calls, ok := strings.Cut(line, "calls="); ok && strings.HasSuffix(name, "_"+w) {
				n, _, _ := strings.Cut(calls, ",")
				all = append(all, w+n)
			}
		}
	}
	return strings.Join(all, " ")
}

// A store that is closed leaves no goroutine behind.
func TestCloseLeavesNothing(t *testing.T) {
	r := servertest.Redis(t)
	before := goleak.IgnoreCurrent()
	s, err := Open(t.Context(), "redis://"+r.Addr, Options{Timeout: long})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := Open(t.Context(), "redis+ring://"+r.Addr, Options{Timeout: long})
	if err != nil {
		t.Fatal(err)
	}
	l := perHour(t, 1000, algorithm.TokenBucket)
	each(64, func(int) {
		if _, err := s.TakeOne(t.Context(), "k", l, 1); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := ring.Close(); err != nil {
			t.Error(err)
		}
	}
	servertest.NoLeaks(t, before)
}
