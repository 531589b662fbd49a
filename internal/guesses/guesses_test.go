package guesses

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

const (
	weak   = "fifteen bytes.."
	strong = "sixteen bytes..."
)

func newBound(t *testing.T, each, total int64) *Bound {
	t.Helper()
	b, err := New(each, total, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A weak secret: beyond the bound nobody hears more than one comparison a second, on
// however many connections, and whoever has it gets in late.
func TestWeakSecretsWaitTheirTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBound(t, 0, 0)
		defer b.Close()
		begun := time.Now()
		var heard, refused atomic.Int64
		var all sync.WaitGroup
		// Each asks again as soon as it hears: a refusal to be compared too.
		for range 100 {
			all.Go(func() {
				for time.Since(begun) < time.Minute {
					at := b.Count()
					_, wait := b.Check(t.Context(), "password", "10.0.0.1", weak, false)
					if b.Count() > at {
						heard.Add(1)
					}
					if wait > 0 {
						refused.Add(1)
						time.Sleep(wait)
					}
				}
			})
		}
		all.Wait()
		// The bound of the minute, its refill, and a turn a second; those that wait at the end.
		if n := b.Count(); n < 60 || n > 2*Each+60+waiting+2 {
			t.Errorf("%d guesses of a minute were compared", n)
		}
		before := time.Now()
		if ok, wait := b.Check(t.Context(), "password", "10.0.0.1", weak, true); !ok {
			t.Errorf("the right one is refused for %s", wait)
		} else if took := time.Since(before); took > (waiting+1)*time.Second {
			t.Errorf("the right one gets in after %s", took)
		}
		if ok, _ := b.Check(t.Context(), "password", "10.0.0.2", weak, true); !ok || time.Since(before) > (waiting+1)*time.Second {
			t.Error("another address waits too")
		}
	})
}

// The right guess of a strong secret is let in at once, from the address of those who
// guess as fast as they can, and right guesses, strong and weak, use up nothing.
func TestRightGuessesGetIn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBound(t, 0, 0)
		defer b.Close()
		begun := time.Now()
		for range 1000 {
			for _, secret := range []string{weak, strong} {
				if ok, wait := b.Check(t.Context(), "token", "10.0.0.1", secret, true); !ok || wait > 0 {
					t.Fatalf("right, and %v after %s", ok, wait)
				}
			}
		}
		for i := range 3000 {
			if ok, wait := b.Check(t.Context(), "token", "10.0.0.1", strong, false); ok || (wait > 0) != (i >= Each) {
				t.Fatalf("wrong guess %d: %v, %s", i, ok, wait)
			}
			if ok, _ := b.Check(t.Context(), "token", "10.0.0.1", strong, true); !ok {
				t.Fatal("the right one is refused")
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("somebody waited: %s", took)
		}
		// One whose request is for another server neither waits nor is told.
		if ok, _ := b.check(t.Context(), "token", "10.0.0.1", weak, true, false); ok || time.Since(begun) > 0 {
			t.Error("beyond the bound a weak one is told at once")
		}
		var none *Bound
		if ok, wait := none.Check(t.Context(), "token", "", weak, false); ok || wait > 0 {
			t.Error("nobody counts, and somebody waits")
		}
		if ok, _ := none.Check(t.Context(), "token", "", weak, true); !ok {
			t.Error("nobody counts, and the right one is refused")
		}
	})
}

// Few wait, in all too, and one who leaves does not.
func TestFewWaitForATurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBound(t, 1, 1)
		defer b.Close()
		b.Check(t.Context(), "password", "0", weak, false)
		ctx, leave := context.WithCancel(t.Context())
		var ended atomic.Int64
		for c := range 30 {
			for range 20 {
				go func() {
					if ok, _ := b.Check(ctx, "password", Client("10.0.0."+string(rune('a'+c))), weak, true); !ok {
						ended.Add(1)
					}
				}()
			}
		}
		synctest.Wait()
		if n := 600 - ended.Load(); n > waitingInAll+1+1 {
			t.Errorf("%d wait", n)
		}
		leave()
		synctest.Wait()
		if n := ended.Load(); n < 600-3 {
			t.Errorf("%d of 600 have left", n)
		}
	})
}
