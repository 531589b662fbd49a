package once_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/shared"
)

// node opens a node on the store of a URL. Its rules are limits of each user.
func node(t *testing.T, url string, limits ...*weir.Limit) *weir.Limiter {
	t.Helper()
	store, err := redis.Open(t.Context(), url, redis.Options{Prefix: "once", Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{MaxBytes: 1 << 20})
	n, err := shared.New(store, shared.Options{Local: local, Timeout: 400 * time.Millisecond, ProbeEvery: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []func() error{n.Close, local.Close, store.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	lim, err := weir.New(n, weir.Limits(limits), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// limitOf returns a limit in a mode, which refuses while the store is away.
func limitOf(mode params.ConsistencyMode) *weir.Limit {
	l := weir.PerDay(1000, algorithm.FixedWindow)
	l.Consistency = params.Consistency{Mode: mode, OnStoreError: params.OnErrorDeny}
	return l
}

// TestFamilyCallIsChargedOnce makes calls on two nodes, each by several callers that try
// again until they have an answer, while connections are cut after calls were carried out
// and answers are held back. Each is charged once.
func TestFamilyCallIsChargedOnce(t *testing.T) {
	calls := 60
	if testing.Short() {
		calls = 20
	}
	for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, servertest.Redis(t).Addr)
			var nodes [2]*weir.Limiter
			for i := range nodes {
				nodes[i] = node(t, "redis://"+proxy.Addr, limitOf(mode))
			}
			keys, r := once.NewCalls(), rand.New(rand.NewPCG(seeds.Of(t), 1))
			deadline := time.Now().Add(2 * time.Minute)
			var mu sync.Mutex
			lost, fresh := 0, make([]int, calls)
			make := func(i, caller int) {
				for n := caller; ; n++ { // the next try is on the other node
					req := request(fmt.Sprint("user", i), 100)
					keys.Mark(once.Check, fmt.Sprint("call", i), req)
					d, err := nodes[n%2].Decide(context.Background(), req)
					mu.Lock()
					if err != nil {
						lost++
					} else if repeated, err := once.IsRepeated(req.Mark); err != nil || !d.Allowed() {
						t.Errorf("call %d: %+v, %v", i, d, err)
					} else if !repeated {
						fresh[i]++
					}
					mu.Unlock()
					if err == nil {
						return
					}
					if time.Now().After(deadline) {
						t.Errorf("call %d: not in time: %v", i, err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			}
			for i := range calls {
				var callers sync.WaitGroup
				if r.IntN(2) > 0 {
					proxy.CutAfter(r.Int64N(100))
				} else {
					proxy.Stall(servertest.Replies, true)
				}
				for caller := range 3 {
					callers.Go(func() { make(i, caller) })
				}
				time.AfterFunc(time.Duration(r.IntN(300))*time.Millisecond, func() {
					proxy.CutAfter(-1)
					proxy.Stall(servertest.Replies, false)
				})
				callers.Wait()
			}
			proxy.CutAfter(-1)
			proxy.Stall(servertest.Replies, false)
			quiet := node(t, "redis://"+proxy.Addr, limitOf(params.ConsistencyStrict))
			for i := range calls {
				req := request(fmt.Sprint("user", i), 1)
				req.Verb = weir.Peek
				d, err := quiet.Decide(t.Context(), req)
				if err != nil || d.Remaining != 900 || fresh[i] > 1 {
					t.Errorf("call %d, answered as the first %d times: %d left (%v)", i, fresh[i], d.Remaining, err)
				}
			}
			if lost == 0 {
				t.Error("no answer was lost")
			}
		})
	}
}

// What no call of the store can decide as a whole is an error.
func TestWhatCannotBeChargedOnce(t *testing.T) {
	keys := once.NewCalls()
	unsupported := func(lim *weir.Limiter, r *weir.Request, text string) {
		t.Helper()
		keys.Mark(once.Check, "k", r)
		if d, err := lim.Decide(t.Context(), r); !errors.Is(err, once.ErrUnsupported) || !strings.Contains(err.Error(), text) || d.Allowed() {
			t.Errorf("%+v, %v", d, err)
		}
	}
	single := "redis://" + servertest.Redis(t).Addr
	unsupported(node(t, single, limitOf(params.ConsistencyStrict), func() *weir.Limit {
		l := limitOf(params.ConsistencyLocal)
		l.Name = "mine"
		return l
	}()), request("ann", 1), `counts limit "mine" alone`)

	var hosts []string
	for range 2 {
		hosts = append(hosts, servertest.Redis(t).Addr)
	}
	ring := node(t, "redis+ring://"+strings.Join(hosts, ","), limitOf(params.ConsistencyStrict))
	several := request("ann", 1)
	for i := range 10 {
		several.Descriptors = append(several.Descriptors, request(fmt.Sprint(i), 1).Descriptors...)
	}
	unsupported(ring, several, "different servers")
	one := request("ann", 1)
	keys.Mark(once.Check, "k", one)
	if d, err := ring.Decide(t.Context(), one); err != nil || !d.Allowed() {
		t.Errorf("%+v, %v", d, err)
	}
}

// A reservation that is made again is the same one: it is settled once, by either handle,
// and by either what it charged is corrected, while a window is open, to the unit.
func TestReservationIsMadeOnce(t *testing.T) {
	url, secret := "redis://"+servertest.Redis(t).Addr, []byte("0123456789abcdef")
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingLog, algorithm.TokenBucket} {
		t.Run(a.Name(), func(t *testing.T) {
			l := weir.PerDay(1000, a)
			l.Name = a.Name()
			lim := node(t, url, l)
			desk, err := reserve.New(lim, reserve.Options{Secret: secret})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(desk.Close)
			keys, user := once.NewCalls(), a.Name()
			make := func(by string) reserve.Reservation {
				t.Helper()
				r := request(user, 300)
				keys.Mark(once.Reserve, by, r)
				res, err := desk.Reserve(t.Context(), r)
				if err != nil || res.Handle == "" {
					t.Fatalf("%+v, %v", res, err)
				}
				return res
			}
			left := func(want int64) {
				t.Helper()
				r := request(user, 1)
				r.Verb = weir.Peek
				if d, err := lim.Decide(t.Context(), r); err != nil || d.Remaining != want {
					t.Errorf("%d left, want %d (%v)", d.Remaining, want, err)
				}
			}
			first, again := make("a"), make("a")
			if first.Expires != again.Expires {
				t.Errorf("expires %s, then %s", first.Expires, again.Expires)
			}
			left(700)
			if got, err := desk.Commit(t.Context(), again.Handle, 100); err != nil || got.Reserved != 300 || got.Actual != 100 {
				t.Errorf("%+v, %v", got, err)
			}
			left(900)
			if got, err := desk.Commit(t.Context(), first.Handle, 100); err != nil || got.Actual != 100 {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := desk.Cancel(t.Context(), first.Handle); !errors.Is(err, reserve.ErrSettled) {
				t.Errorf("canceled too: %v", err)
			}
			left(900)
		})
	}
}
