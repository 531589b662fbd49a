package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/memcached"
)

// lateness is what a busy test machine may add to a timeout.
const lateness = 15 * time.Second

// stall stops a server until the returned function or the end of the test wakes
// it. When it returns the server has stopped.
func stall(t *testing.T, addr string, p *servertest.Process) (wake func()) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wake = func() {
		if err := p.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(wake)
	servertest.Await(t, "the server to stop", func() bool { return !answers(addr) })
	return wake
}

func kill(t *testing.T, p *servertest.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, _ = p.Wait(t.Context()) // killed: what it returns is no news
}

// TestStalled: while a server does not answer every call returns an error within
// its timeout, goroutines are the callers' own, connections stay bounded; once it
// is back the first call is answered.
func TestStalled(t *testing.T) {
	addr, p := servertest.Memcached(t, "")
	const timeout, conns = 100 * time.Millisecond, 4
	s := open(t, memcached.Options{Servers: []string{addr}, Timeout: timeout, MaxConns: conns})
	patiently := open(t, memcached.Options{Servers: []string{addr}})
	l := yearly(t, "l", 1000)
	each(clients, func(int) {
		if _, err := patiently.TakeOne(t.Context(), "k", l, 1); err != nil {
			t.Error(err)
		}
	})
	wake := stall(t, addr, p)
	before := runtime.NumGoroutine()
	var most atomic.Int64
	each(clients, func(int) {
		for range 3 {
			begin := time.Now()
			_, err := s.TakeOne(t.Context(), "k", l, 1)
			if took := time.Since(begin); took > timeout+lateness {
				t.Errorf("a call took %s, its timeout is %s", took, timeout)
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) && !strings.Contains(fmt.Sprint(err), "no answer in time") {
				t.Errorf("error %v, want no answer in time", err)
			}
			most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
		}
	})
	// One more for each connection: the client library asks for several keys so. On
	// a busy machine those of the calls before have not all ended yet.
	if n := int(most.Load()); n > before+2*clients+conns {
		t.Errorf("%d goroutines for %d callers, there were %d before", n, clients, before)
	}
	wake()
	if _, err := patiently.TakeOne(t.Context(), "k", l, 1); err != nil {
		t.Errorf("the server is back: %v", err)
	}
	// Charges whose answers were lost may have been made, and none twice.
	d, err := patiently.TakeOne(t.Context(), "k", l, 0)
	if spent := l.Count - d.Remaining; err != nil || spent < clients+1 || spent > clients+1+3*clients {
		t.Errorf("%d units are spent, %v", spent, err)
	}
}

// TestCallerInAHurry: the caller's deadline is kept where it is the shorter one,
// and a call whose caller has gone charges nothing.
func TestCallerInAHurry(t *testing.T) {
	addr, p := servertest.Memcached(t, "")
	s := open(t, memcached.Options{Servers: []string{addr}, Timeout: 30 * time.Second})
	l := yearly(t, "l", 10)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.TakeOne(gone, "k", l, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	left(t, s, "k", l, 10)
	stall(t, addr, p)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := s.TakeOne(ctx, "k", l, 1); err == nil {
		t.Error("a stalled server answered")
	}
	if took := time.Since(begin); took > 50*time.Millisecond+lateness {
		t.Errorf("took %s, the caller had 50ms", took)
	}
}

// TestKilledAndBack: while a server is gone calls fail at once; when it is back
// idle connections of before fail one call at most.
func TestKilledAndBack(t *testing.T) {
	addr, p := servertest.Memcached(t, "")
	s := open(t, memcached.Options{Servers: []string{addr}})
	l := yearly(t, "l", 1000)
	each(clients, func(int) {
		if _, err := s.TakeOne(t.Context(), "k", l, 1); err != nil {
			t.Error(err)
		}
	})
	kill(t, p)
	servertest.Memcached(t, addr)
	failed := 0
	for range 50 {
		if _, err := s.TakeOne(t.Context(), "k", l, 1); err != nil {
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d calls failed after the restart, want 1 at most", failed)
	}
	// Its memory is gone: stated, and no worse than that.
	left(t, s, "k", l, 1000-50+int64(failed))
}

func TestGone(t *testing.T) {
	addr, p := servertest.Memcached(t, "")
	s := open(t, memcached.Options{Servers: []string{addr}})
	l := yearly(t, "l", 10)
	take(t, s, weir.Op{Key: "k", Limit: l, Cost: 1})
	kill(t, p)
	begin := time.Now()
	for range 20 {
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 1}}
		if err := s.Take(t.Context(), ops); err == nil || ops[0].Charged || !strings.Contains(err.Error(), addr) {
			t.Errorf("error %v, charged %v", err, ops[0].Charged)
		}
	}
	if took := time.Since(begin); took > patient {
		t.Errorf("20 calls to nobody took %s", took)
	}
}

// TestOneOfTwoLost: the keys of the other server are served as before, and what
// they were charged by requests that need both is given back, whether the lost one
// is dead or stalled.
func TestOneOfTwoLost(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, string, *servertest.Process){
		"killed":  func(t *testing.T, _ string, p *servertest.Process) { kill(t, p) },
		"stalled": func(t *testing.T, addr string, p *servertest.Process) { stall(t, addr, p) },
	} {
		t.Run(name, func(t *testing.T) {
			well := server(t)
			ill, p := servertest.Memcached(t, "")
			s := open(t, memcached.Options{Servers: []string{well, ill}, Timeout: 2 * time.Second})
			l := yearly(t, "l", 10)
			lose(t, ill, p)
			var there, lost []string
			for n := range 64 {
				key := fmt.Sprint(n)
				if _, err := s.TakeOne(t.Context(), key, l, 1); err == nil {
					there = append(there, key)
				} else {
					lost = append(lost, key)
				}
				if len(there) > 0 && len(lost) > 0 {
					break
				}
			}
			if len(there) == 0 || len(lost) == 0 {
				t.Fatalf("%d keys are there and %d lost: want some of both", len(there), len(lost))
			}
			ops := []weir.Op{{Key: there[0], Limit: l, Cost: 2}, {Key: lost[0], Limit: l, Cost: 2}}
			begin := time.Now()
			if err := s.Take(t.Context(), ops); err == nil || !strings.Contains(err.Error(), ill) {
				t.Errorf("error %v, want one that names %s", err, ill)
			}
			if took := time.Since(begin); took > 2*time.Second+lateness {
				t.Errorf("took %s", took)
			}
			left(t, s, there[0], l, 9)
			if n := s.Stats().Kept; n != 0 {
				t.Errorf("%d charges could not be taken back", n)
			}
		})
	}
}

// TestLostServerIsProbed: of two servers, the one that fails some calls in a row is asked
// no more until it answers a probe, and its keys get errors at once.
func TestLostServerIsProbed(t *testing.T) {
	well := server(t)
	ill, p := servertest.Memcached(t, "")
	s := open(t, memcached.Options{Servers: []string{well, ill}, Timeout: 200 * time.Millisecond})
	l, lost := yearly(t, "l", 1000), ""
	wake := stall(t, ill, p)
	for n := 0; lost == ""; n++ {
		if _, err := s.TakeOne(t.Context(), fmt.Sprint(n), l, 1); err != nil {
			lost = fmt.Sprint(n)
		}
	}
	ask := func() error {
		_, err := s.TakeOne(t.Context(), lost, l, 1)
		if err != nil && !strings.Contains(err.Error(), ill) {
			t.Errorf("error %v, want one of %s alone", err, ill)
		}
		return err
	}
	servertest.Await(t, "an error at once", func() bool {
		err := ask()
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	})
	wake()
	servertest.Await(t, "the server to be back", func() bool { return ask() == nil })
}

// TestForgetting: a flushed key admits the limit once more, and no more.
func TestForgetting(t *testing.T) {
	addr := server(t)
	s := open(t, memcached.Options{Servers: []string{addr}})
	l := yearly(t, "l", 10)
	passed := 0
	for n := range 100 {
		if n == 50 {
			if got := command(t, addr, "flush_all"); got != "OK\r\n" {
				t.Fatal(got)
			}
		}
		if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil {
			t.Fatal(err)
		} else if d.Allowed() {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("%d passed a limit of 10 that was forgotten once, want 20", passed)
	}
}

// TestMemoryFull: with -M a server that is full refuses to keep a key, and that is
// an error.
func TestMemoryFull(t *testing.T) {
	addr, _ := servertest.Memcached(t, "", "-M", "-m", "2")
	s := open(t, memcached.Options{Servers: []string{addr}})
	l := yearly(t, "l", 1)
	for n := range 200_000 {
		d, err := s.TakeOne(t.Context(), fmt.Sprint(n), l, 1)
		if err != nil {
			if !strings.Contains(err.Error(), "out of memory") {
				t.Errorf("error %v", err)
			}
			left(t, s, "0", l, 0)
			return
		}
		if !d.Allowed() {
			t.Fatalf("key %d is new and was refused", n)
		}
	}
	t.Error("2 MB were never full")
}

// TestCloseLeavesNothing: no goroutine outlives a store, and calls after Close
// say so.
func TestCloseLeavesNothing(t *testing.T) {
	addr := server(t)
	before := goleak.IgnoreCurrent()
	s := open(t, memcached.Options{Servers: []string{addr}})
	l := yearly(t, "l", 1000)
	var closed atomic.Bool
	each(clients, func(w int) {
		for n := range 20 {
			if w == 0 && n == 10 {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				closed.Store(true)
			}
			was := closed.Load()
			if _, err := s.TakeOne(t.Context(), "k", l, 1); err != nil && !errors.Is(err, weir.ErrClosed) || was && err == nil {
				t.Errorf("error %v, want none or ErrClosed", err)
			}
		}
	})
	servertest.NoLeaks(t, before)
}

// TestLostAnswers: a command whose answer is lost has been done once, and is
// neither repeated nor undone.
func TestLostAnswers(t *testing.T) {
	addr := server(t)
	direct := open(t, memcached.Options{Servers: []string{addr}})
	through := func(lose string) *memcached.Store {
		// The proxy's address differs, but where there is one server it has all keys.
		return open(t, memcached.Options{Servers: []string{losing(t, addr, lose)}, Timeout: time.Second})
	}
	take := func(s *memcached.Store, o weir.Op) {
		t.Helper()
		ops := []weir.Op{o}
		if err := s.Take(t.Context(), ops); !errors.Is(err, os.ErrDeadlineExceeded) || ops[0].Charged {
			t.Errorf("charged %v, error %v; want one of time", ops[0].Charged, err)
		}
	}
	l := yearly(t, "l", 10)
	if _, err := direct.TakeOne(t.Context(), "k", l, 5); err != nil {
		t.Fatal(err)
	}
	s := through("incr")
	take(s, weir.Op{Key: "k", Limit: l, Cost: 2})
	left(t, direct, "k", l, 3)

	s = through("add")
	take(s, weir.Op{Key: "new", Limit: l, Cost: 2})
	left(t, direct, "new", l, 8)

	s = through("decr")
	take(s, weir.Op{Key: "k", Limit: l, Cost: 3, Verb: weir.Refund})
	left(t, direct, "k", l, 6)
	// Charged, has no room, taken back: once, though nobody said so.
	take(s, weir.Op{Key: "k", Limit: l, Cost: 7, Role: weir.Always})
	left(t, direct, "k", l, 6)
	if n := s.Stats().Kept; n != 1 {
		t.Errorf("%d charges are said to be kept, want 1", n)
	}
	// A refusal stands though it could not be told to be taken back.
	ops := []weir.Op{{Key: "k", Limit: l, Cost: 7}}
	if err := s.Take(t.Context(), ops); err != nil || ops[0].Charged || ops[0].Decision.Allowed() {
		t.Errorf("%+v, %v", ops[0], err)
	}
	left(t, direct, "k", l, 6)
}
