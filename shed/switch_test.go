package shed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/shed"
)

// TestShadowRules plays the same requests to each limiter in earnest and as a
// shadow: what the one refuses the other counts, and lets pass.
func TestShadowRules(t *testing.T) {
	for i, name := range []string{"user_rate", "user_concurrency", "fleet_share"} {
		var counts [2][]shed.ClassState
		for j, mode := range []string{"enforce", "shadow"} {
			w := newWorld(t, all())
			for _, n := range []string{"user_rate", "user_concurrency", "fleet_share"} {
				set(t, w.s, n, "off")
			}
			set(t, w.s, name, mode)
			rnd := rand.New(rand.NewPCG(11, 12))
			ends := map[int][]*weir.Request{}
			for step := range 5000 {
				w.store.Advance(4 * time.Millisecond)
				for _, r := range ends[step] {
					w.release(r)
				}
				r := ask(fmt.Sprint(rnd.IntN(10)), shed.Priority(rnd.IntN(4)), fmt.Sprint(step))
				takes := 1 + rnd.IntN(100)
				if w.decide(r).Allowed() {
					ends[step+takes] = append(ends[step+takes], r)
				} else if mode == "shadow" {
					t.Fatalf("%s: a shadow refused", name)
				}
			}
			counts[j] = w.s.State().Limiters[i].Classes
		}
		sum := uint64(0)
		for c := range counts[0] {
			e, s := counts[0][c], counts[1][c]
			sum += e.Refused
			if e.Allowed != s.Allowed || e.Refused != s.ShadowRefused || e.ShadowRefused != 0 || s.Refused != 0 {
				t.Errorf("%s: enforced %+v, shadowed %+v", name, e, s)
			}
		}
		if sum < 50 {
			t.Errorf("%s: %d refusals prove little", name, sum)
		}
	}
}

// TestKillSwitchGivesLeasesBack: what was taken before the switch is given back
// after it, and while it is thrown nothing is asked or taken.
func TestKillSwitchGivesLeasesBack(t *testing.T) {
	for _, off := range [][2]string{{"off", "true"}, {"user_concurrency", "off"}, {"user_concurrency", "shadow"}} {
		w := newWorld(t, shed.Options{UserConcurrency: shed.ConcurrencyOptions{Limit: 2}})
		one, two := ask("ann", shed.Default, "1"), ask("ann", shed.Default, "2")
		w.decide(one)
		w.decide(two)
		if w.decide(ask("ann", shed.Default, "3")).Allowed() {
			t.Fatal("three places of two")
		}
		set(t, w.s, off[0], off[1])
		three := ask("ann", shed.Default, "3")
		if !w.decide(three).Allowed() {
			t.Errorf("%v: refused", off)
		}
		if n := len(three.Ops()); off[1] != "shadow" && n != 0 {
			t.Errorf("%v: %d limits were met", off, n)
		}
		w.release(one)
		w.release(three)
		w.release(two)
		back := "enforce"
		if off[0] == "off" {
			back = "false"
		}
		set(t, w.s, off[0], back)
		if d := w.decide(peek(ask("ann", shed.Default, ""))); d.Remaining != 2 {
			t.Errorf("%v: %d places are free, want 2", off, d.Remaining)
		}
	}
}

// TestKillSwitchUnderContention throws it while 64 goroutines take and give back
// leases.
func TestKillSwitchUnderContention(t *testing.T) {
	w := newWorld(t, all())
	var done atomic.Bool
	var wg, switches sync.WaitGroup
	switches.Go(func() {
		for i := 0; !done.Load(); i++ {
			if err := w.s.Set(map[string]string{"off": fmt.Sprint(i%2 == 0), "user_concurrency": []string{"enforce", "shadow", "off"}[i%3]}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for g := range 64 {
		wg.Go(func() {
			for i := range 50 {
				r := ask(fmt.Sprint(g%4), shed.Critical, fmt.Sprint(g, i))
				if _, err := w.lim.Decide(context.Background(), r); err != nil {
					t.Error(err)
				}
				if _, err := w.lim.Release(context.Background(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	done.Store(true)
	switches.Wait()
	set(t, w.s, "off", "false", "user_rate", "off", "user_concurrency", "enforce", "fleet_share", "off")
	for u := range 4 {
		if d := w.decide(peek(ask(fmt.Sprint(u), shed.Critical, ""))); d.Limit == nil || d.Remaining != 2 {
			t.Errorf("user %d: %d places are free, want 2", u, d.Remaining)
		}
	}
}

// TestOffAsksNoStore: with a store that fails, the kill switch lets all pass.
func TestOffAsksNoStore(t *testing.T) {
	w := newWorld(t, all())
	w.store.Fail = context.DeadlineExceeded
	if _, err := w.lim.Decide(context.Background(), ask("ann", shed.Default, "1")); err == nil {
		t.Fatal("no error")
	}
	set(t, w.s, "off", "true")
	if d := w.decide(ask("ann", shed.Default, "1")); !d.Allowed() || d.Limit != nil {
		t.Errorf("%+v", d)
	}
}
