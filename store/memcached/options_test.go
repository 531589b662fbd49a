package memcached_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memcached"
)

func TestParseURL(t *testing.T) {
	good := func(text string, want memcached.Options) {
		t.Helper()
		if got, err := memcached.ParseURL(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	good("memcached://cache", memcached.Options{Servers: []string{"cache:11211"}})
	good("memcached://a:1,[::1],b/?prefix=p%23:&timeout=5ms&conns=3", memcached.Options{
		Servers: []string{"a:1", "[::1]:11211", "b:11211"}, Prefix: "p#:", Timeout: 5 * time.Millisecond, MaxConns: 3})

	bad := func(text, want string) {
		t.Helper()
		o, err := memcached.ParseURL(text)
		if err == nil || !strings.HasPrefix(err.Error(), "store memcached: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want an error with %q", text, o, err, want)
		}
	}
	bad("redis://a", "must begin with memcached://")
	bad("memcached:", "must begin with memcached://")
	bad("memcached://", "a server has no name")
	bad("memcached://a,,b", "a server has no name")
	bad("memcached://a:b", `port "b" must be a number`)
	bad("memcached://a:0", `port "0" must be a number`)
	bad("memcached://a:70000", `port "70000" must be a number`)
	bad("memcached://:11211", "no host of that name")
	bad("memcached://a b", "no host of that name")
	bad("memcached://a:1:2", "too many colons")
	bad("memcached://a,a:11211", "named twice")
	bad("memcached://u:p@a", "no users or passwords")
	bad("memcached://a/0", `unexpected path "0"`)
	bad("memcached://a#x", "unexpected #")
	bad("memcached://a?timeot=5ms", `unknown setting "timeot" (did you mean "timeout"?)`)
	bad("memcached://a?timeout=5", `timeout "5" is not a duration`)
	bad("memcached://a?timeout=1us", "timeout 1µs must be between")
	bad("memcached://a?timeout=-1s", "is not a duration")
	bad("memcached://a?timeout=0s", "is not a duration")
	bad("memcached://a?timeout=5ms&timeout=6ms", "timeout is given 2 times")
	bad("memcached://a?timeout=", "timeout has no value")
	bad("memcached://a?conns=0", `conns "0" is not`)
	bad("memcached://a?conns=5000", "conns 5000 must be between")
	bad("memcached://a?prefix=a%20b", "prefix")
	bad("memcached://a?prefix="+strings.Repeat("x", 101), "prefix")
	bad("memcached://a?%zz", "settings cannot be read")
	bad("memcached://"+strings.Repeat("a", 20_000), "the URL has")
	bad("memcached://"+strings.Repeat("a,", 64)+"b", "65 servers, 64 is the most")
}

func TestNewChecksOptions(t *testing.T) {
	for _, o := range []memcached.Options{
		{},
		{Servers: []string{"a"}},
		{Servers: []string{"a:1"}, Timeout: -1},
		{Servers: []string{"a:1"}, MaxConns: -1},
		{Servers: []string{"a:1"}, Prefix: "é"},
	} {
		if s, err := memcached.New(o); err == nil {
			s.Close()
			t.Errorf("%+v was taken", o)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("memcached://a:1,[::1],b/?prefix=p:&timeout=5ms&conns=3")
	f.Add("memcached://")
	f.Add("memcached://a?%zz")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := memcached.ParseURL(text)
		if err != nil {
			return
		}
		s, err := memcached.New(o)
		if err != nil {
			t.Fatalf("%q was read as %+v, and that is wrong: %v", text, o, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCheck: every algorithm but one is refused, by Check and by the store, with
// what to do.
func TestCheck(t *testing.T) {
	s := open(t, memcached.Options{Servers: []string{"127.0.0.1:1"}})
	refused := func(l *weir.Limit, want string) {
		t.Helper()
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if err := memcached.Check(l); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "store, such as") {
			t.Errorf("%s: Check says %v, want %q", l.Name, err, want)
		}
	}
	for _, a := range algorithm.All {
		if a == algorithm.FixedWindow {
			continue
		}
		l := weir.PerHour(10, a)
		refused(l, "cannot keep "+a.Name()+": use fixed_window")
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, ID: 1}}
		if err := s.Take(t.Context(), ops); err == nil || !strings.Contains(err.Error(), a.Name()) {
			t.Errorf("%s: Take says %v", a.Name(), err)
		}
	}
	first := weir.PerHour(10, algorithm.FixedWindow)
	first.Anchor = params.AnchorFirst
	refused(first, "anchor it to the epoch or the calendar")
	ban := weir.PerHour(10, algorithm.FixedWindow)
	ban.Ban = weir.PerHour(3, algorithm.Lockout)
	refused(ban, "its ban: ")
	elastic := weir.PerHour(10, algorithm.FixedWindow)
	elastic.Pool = weir.PerHour(30, algorithm.TokenBucket)
	refused(elastic, "its pool: ")

	well := weir.PerHour(10, algorithm.FixedWindow)
	well.Pool, well.Ban = weir.PerHour(30, algorithm.FixedWindow), weir.PerHour(3, algorithm.FixedWindow)
	calendar := fixed(t, "calendar", 10, 31*24*time.Hour, params.Params{Anchor: params.AnchorCalendar, Calendar: params.CalendarMonth})
	for _, l := range []*weir.Limit{well, calendar} {
		if err := memcached.Check(l); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.TakeOne(t.Context(), "k", weir.PerHour(1, algorithm.FixedWindow), 1); err == nil || !strings.Contains(err.Error(), "was not compiled") {
		t.Errorf("a limit that was not compiled: %v", err)
	}
	l := yearly(t, "l", 10)
	for _, cost := range []int64{-1, weir.MaxCost + 1, math.MinInt64} {
		if _, err := s.TakeOne(t.Context(), "k", l, cost); !errors.Is(err, weir.ErrCost) {
			t.Errorf("cost %d: %v, want ErrCost", cost, err)
		}
	}
}

// TestProbe: what is wrong with a server is said before the first request.
func TestProbe(t *testing.T) {
	probe := func(addr string) (string, error) {
		var warned bytes.Buffer
		err := open(t, memcached.Options{Servers: []string{addr}, Logger: slog.New(slog.NewTextHandler(&warned, nil))}).Probe(t.Context())
		return warned.String(), err
	}
	evicting := server(t)
	if w, err := probe(evicting); err != nil || strings.Count(w, "\n") != 1 || !strings.Contains(w, "level=WARN") || !strings.Contains(w, evicting) || !strings.Contains(w, "start it with -M") {
		t.Errorf("a server that evicts: %q, %v", w, err)
	}
	keeping, _ := servertest.Memcached(t, "", "-M")
	if w, err := probe(keeping); err != nil || w != "" {
		t.Errorf("a server that does not evict: %q, %v", w, err)
	}
	bad := func(what, addr, want string) {
		t.Helper()
		if w, err := probe(addr); err == nil || !strings.Contains(err.Error(), "store memcached "+addr) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", what, w, err, want)
		}
	}
	bad("nobody", "127.0.0.1:1", "start Memcached there, or correct the server's address")
	bad("a server with passwords", guarded(t), "without -Y and -S")
	bad("a web server", webServer(t), "this is not Memcached")
}

// TestCheckInRules: rules for a limit that cannot be kept do not load, and the
// fault is at its place.
func TestCheckInRules(t *testing.T) {
	load := func(algorithm string) error {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		text := "domain: d\ndescriptors:\n  - key: user\n    rate_limit:\n      unit: minute\n      requests_per_unit: 5\n      algorithm: " + algorithm + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := rules.Load([]string{path}, rules.Options{Check: memcached.Check})
		return err
	}
	if err := load("fixed_window"); err != nil {
		t.Error(err)
	}
	if err := load("sliding_window"); err == nil || !strings.Contains(err.Error(), "rules.yaml:5:") || !strings.Contains(err.Error(), "use fixed_window") {
		t.Errorf("error %v", err)
	}
}
