package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// open opens a store as users do.
func open(t testing.TB, url string, opt Options) *Store {
	t.Helper()
	if opt.Prefix == "" {
		opt.Prefix = newPrefix()
	}
	return openShared(t, url, opt)
}

// openShared opens a store whose keys others have too.
func openShared(t testing.TB, url string, opt Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func perHour(t testing.TB, count int64, a weir.Algorithm) *weir.Limit {
	t.Helper()
	l := weir.PerHour(count, a)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// each runs f on n goroutines.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// A server forgets its scripts, again and again, while 64 clients spend: no call
// fails, none is charged twice.
func TestScriptFlushUnderLoad(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	one, two := perHour(t, 1000, algorithm.FixedWindow), perHour(t, 1<<40, algorithm.TokenBucket)
	two.Scope = "two"
	ctx, stop := context.WithCancel(t.Context())
	var flushed sync.WaitGroup
	flushes := 0
	flushed.Go(func() {
		for ; ctx.Err() == nil; flushes++ {
			r.Do(t, "SCRIPT", "FLUSH")
		}
	})
	var passed atomic.Int64
	each(64, func(i int) {
		for n := range 40 {
			ops := []weir.Op{{Key: "k", Limit: one, Cost: 1}, {Key: "k", Limit: two, Cost: 1}}
			if n%2 == 0 {
				ops = ops[:1]
			}
			if err := s.Take(t.Context(), ops); err != nil {
				t.Error(err)
			}
			if ops[0].Charged {
				passed.Add(1)
			}
		}
	})
	stop()
	flushed.Wait()
	if passed.Load() != 1000 {
		t.Errorf("%d passed a limit of 1000", passed.Load())
	}
	if n := s.Stats().Reloads; n == 0 || flushes == 0 {
		t.Errorf("%d flushes, %d reloads: nothing was tested", flushes, n)
	}
}

// goroutinesOf returns how many goroutines have the label of a test.
func goroutinesOf(t *testing.T) int {
	t.Helper()
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		t.Fatal(err)
	}
	n := 0
	for group := range strings.SplitSeq(text.String(), "\n\n") {
		if !strings.Contains(group, fmt.Sprintf("%q:%q", "test", t.Name())) {
			continue
		}
		// The first group has the profile's head above it.
		for line := range strings.Lines(group) {
			var same int
			if _, err := fmt.Sscanf(line, "%d @", &same); err == nil {
				n += same
				break
			}
		}
	}
	return n
}

// A server that is stopped holds up nobody longer than the budget, whatever the
// load, and no goroutine for longer; when it goes on, so do decisions.
func TestStall(t *testing.T) {
	t.Parallel()
	// All that is started from here on has the label: other tests run beside.
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("test", t.Name())))
	r := servertest.Redis(t)
	const budget = 50 * time.Millisecond
	s := open(t, "redis://"+r.Addr, Options{Timeout: budget, InFlight: 64})
	l := perHour(t, 1<<40, algorithm.TokenBucket)
	if _, err := s.TakeOne(t.Context(), "k", l, 1); err != nil {
		t.Fatal(err)
	}
	if err := r.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before := goroutinesOf(t)
	var slowest, late, many atomic.Int64
	each(256, func(int) {
		for range 8 {
			from := time.Now()
			_, err := s.TakeOne(t.Context(), "k", l, 1)
			took := int64(time.Since(from))
			for old := slowest.Load(); took > old && !slowest.CompareAndSwap(old, took); old = slowest.Load() {
			}
			var timeout *TimeoutError
			switch {
			case errors.As(err, &timeout):
				late.Add(1)
			case errors.Is(err, ErrBusy):
				many.Add(1)
			default:
				t.Errorf("a stopped server: %v", err)
			}
		}
	})
	if d := time.Duration(slowest.Load()); d > budget+busy {
		t.Errorf("waited %v with a budget of %v", d, budget)
	}
	if late.Load() == 0 || many.Load() == 0 {
		t.Errorf("%d came late, %d were too many: want both", late.Load(), many.Load())
	}
	if n := goroutinesOf(t); before == 0 || n > before+50 {
		t.Errorf("%d goroutines before the stall, %d after", before, n)
	}
	// Long enough for the client to give up its connections.
	for from := time.Now(); time.Since(from) < 3*timeout; {
		if _, err := s.TakeOne(t.Context(), "k", l, 1); err == nil {
			t.Fatal("a stopped server decided")
		}
	}
	if err := r.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	servertest.Await(t, "a decision after the stall", func() bool {
		_, err := s.TakeOne(t.Context(), "k", l, 1)
		return err == nil
	})
	if d := time.Since(back); d > time.Second+busy {
		t.Errorf("the first decision came %v after the stall", d)
	}
}

// A server that is killed gives errors at once, and one that is back serves at
// once, as if never seen.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	l := perHour(t, 3, algorithm.SlidingWindow)
	for range 3 {
		if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil || !d.Allowed() {
			t.Fatal(d, err)
		}
	}
	r.Kill(t)
	for range 20 {
		from := time.Now()
		if _, err := s.TakeOne(t.Context(), "k", l, 1); err == nil {
			t.Fatal("a killed server decided")
		}
		if d := time.Since(from); d > 3*timeout+busy {
			t.Errorf("waited %v", d)
		}
	}
	r.Restart(t)
	back := time.Now()
	servertest.Await(t, "a decision after the restart", func() bool {
		d, err := s.TakeOne(t.Context(), "k", l, 1)
		return err == nil && d.Remaining == 2
	})
	if d := time.Since(back); d > time.Second+busy {
		t.Errorf("the first decision came %v after the restart", d)
	}
	if s.Stats().Errors < 20 {
		t.Errorf("counted %d errors", s.Stats().Errors)
	}
}

// A caller's own deadline ends its wait sooner, and a context that has ended asks
// nobody.
func TestCallersContext(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: time.Minute})
	l := perHour(t, 10, algorithm.TokenBucket)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var timeout *TimeoutError
	if _, err := s.TakeOne(ended, "k", l, 1); !errors.As(err, &timeout) || timeout.Sent || !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if err := r.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 2*time.Second) // so that it is sent
	defer cancel()
	_, err := s.TakeOne(soon, "k", l, 1)
	if !errors.As(err, &timeout) || !timeout.Sent || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
	if err := r.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// What was sent is applied all the same, once.
	servertest.Await(t, "the call to be applied", func() bool {
		d, err := s.TakeOne(t.Context(), "k", l, 0)
		return err == nil && d.Remaining == 9
	})
}

// A full server refuses to write: that is an error, which says what to do.
func TestMemoryFull(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	l := perHour(t, 10, algorithm.TokenBucket)
	r.Do(t, "CONFIG", "SET", "maxmemory", "100kb")
	if _, err := s.TakeOne(t.Context(), "k", l, 1); !contains(err, "raise its maxmemory") {
		t.Errorf("a full server: %v", err)
	}
	r.Do(t, "CONFIG", "SET", "maxmemory", "0")
	if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil || d.Remaining != 9 {
		t.Errorf("with room again: %+v, %v", d, err)
	}
}
