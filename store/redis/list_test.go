package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// hourAndMinute returns a limit before and after its period was changed.
func hourAndMinute(t *testing.T) (hour, minute *weir.Limit) {
	hour = &weir.Limit{Name: "changed", Algorithm: algorithm.SlidingWindow, Count: 10_000, Period: time.Hour}
	minute = &weir.Limit{Name: "changed", Algorithm: algorithm.SlidingWindow, Count: 100, Period: time.Minute}
	for _, l := range []*weir.Limit{hour, minute} {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	return hour, minute
}

// left returns what is left of a limit, after a cost was spent if it can be.
func leftAfter(t *testing.T, s *Store, l *weir.Limit, cost int64) int64 {
	t.Helper()
	d, err := s.TakeOne(t.Context(), "k", l, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// A node that is started with another period knows what was spent under the one before, also
// by other nodes, on servers of any kind.
func TestChangedWhileNoNodeRan(t *testing.T) {
	t.Parallel()
	f := func(url string) {
		t.Helper()
		hour, minute := hourAndMinute(t)
		s := openShared(t, url, Options{Timeout: long})
		leftAfter(t, s, hour, 9_000)
		if err := s.syncVersions(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := leftAfter(t, openShared(t, url, Options{Timeout: long}), minute, 1); left != 0 {
			t.Errorf("%d are left of 100/minute after 9,000 of 10,000/hour were spent", left)
		}
	}
	f("redis://" + servertest.Redis(t).Addr + "?prefix=while")
	f("redis+cluster://" + servertest.RedisCluster(t, 3)[0].Addr + "?prefix=while")
	f("redis+ring://" + servertest.Redis(t).Addr + "," + servertest.Redis(t).Addr + "?prefix=while")
}

// A node that reloads later charges the rows of the new version as soon as it has read of it.
func TestNodesThatReloadApart(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Redis(t).Addr
	hour, minute := hourAndMinute(t)
	first, later := openShared(t, url, Options{Timeout: long}), openShared(t, url, Options{Timeout: long})
	for _, s := range []*Store{first, later} {
		leftAfter(t, s, hour, 10)
	}
	leftAfter(t, first, minute, 10)
	for _, s := range []*Store{first, later} {
		if err := s.syncVersions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	leftAfter(t, later, hour, 50)
	if left := leftAfter(t, first, minute, 0); left != 20 {
		t.Errorf("%d are left of 100/minute, want 20", left)
	}
}

// A list that the server lost is made anew by the nodes that are there, and one that no node
// of ours wrote harms nothing.
func TestListThatIsLost(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	url, key := "redis://"+r.Addr, "weir:{versions}:list"
	hour, minute := hourAndMinute(t)
	s := openShared(t, url, Options{Timeout: long})
	leftAfter(t, s, hour, 9_000)
	sync := func() {
		if err := s.syncVersions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	if n := r.Do(t, "ZCARD", key); n != int64(1) {
		t.Fatalf("%v versions in the list", n)
	}
	r.Do(t, "DEL", key)
	sync()
	sync()
	for i, entry := range []string{"", "a", "a b c d e f", "x }:y gcra 1 1 1 1 1", "x }:y sliding_window 9e9 1 1", "x }:y sliding_window -1 1 1", "x }:y permits 1 1 1"} {
		r.Do(t, "ZADD", key, fmt.Sprint(1<<52+i), entry)
	}
	sync()
	if left := leftAfter(t, openShared(t, url, Options{Timeout: long}), minute, 1); left != 0 {
		t.Errorf("%d are left of 100/minute after 9,000 of 10,000/hour were spent", left)
	}
}

// countersOf returns how many keys a server has beside the list of versions.
func countersOf(t *testing.T, r *servertest.RedisServer) (n int) {
	t.Helper()
	for _, name := range r.Do(t, "KEYS", "*").([]any) {
		if !strings.HasSuffix(fmt.Sprint(name), "{versions}:list") {
			n++
		}
	}
	return n
}
