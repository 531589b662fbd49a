package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

// altered is a store that takes ops otherwise than it should.
type altered struct {
	weir.Store
	take func(ops []weir.Op) error
}

func (s altered) Take(_ context.Context, ops []weir.Op) error { return s.take(ops) }

func TestHistory(t *testing.T) {
	errLost := errors.New("the answer was lost")
	for _, c := range []struct {
		name  string
		alter func(n int, take func([]weir.Op) error, ops []weir.Op) error
		want  porcupine.CheckResult
	}{
		{"as it should be", func(_ int, take func([]weir.Op) error, ops []weir.Op) error {
			return take(ops)
		}, porcupine.Ok},
		{"an answer is lost", func(n int, take func([]weir.Op) error, ops []weir.Op) error {
			err := take(ops)
			if n == 10 {
				return errLost
			}
			return err
		}, porcupine.Ok},
		{"a call is lost", func(n int, take func([]weir.Op) error, ops []weir.Op) error {
			if n == 10 {
				return errLost
			}
			return take(ops)
		}, porcupine.Ok},
		{"a call without an answer is sent again", func(n int, take func([]weir.Op) error, ops []weir.Op) error {
			if n == 10 {
				return errors.Join(take(ops), take(ops), errLost)
			}
			return take(ops)
		}, porcupine.Illegal},
		{"a charge is forgotten", func(n int, take func([]weir.Op) error, ops []weir.Op) error {
			err := take(ops)
			if n == 10 {
				back := []weir.Op{ops[0]}
				back[0].Verb, back[0].Role = weir.Refund, weir.Always
				err = errors.Join(err, take(back))
			}
			return err
		}, porcupine.Illegal},
		{"an answer says that more is left", func(n int, take func([]weir.Op) error, ops []weir.Op) error {
			err := take(ops)
			if n == 10 {
				ops[0].Decision.Remaining++
			}
			return err
		}, porcupine.Illegal},
		{"the store's time goes back", func(n int, take func([]weir.Op) error, ops []weir.Op) error {
			err := take(ops)
			if n == 39 {
				ops[0].Now -= 1_000_000
			}
			return err
		}, porcupine.Illegal},
	} {
		t.Run(c.name, func(t *testing.T) {
			local := memory.New(memory.Options{MaxBytes: 1 << 20})
			defer local.Close()
			var mu sync.Mutex
			n := 0
			s := altered{local, func(ops []weir.Op) error {
				mu.Lock()
				defer mu.Unlock()
				n++
				return c.alter(n, func(ops []weir.Op) error { return local.Take(t.Context(), ops) }, ops)
			}}
			l := weir.PerDay(100, algorithm.FixedWindow)
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			var h History
			var clients sync.WaitGroup
			for i := range 4 {
				clients.Go(func() {
					for range 10 {
						_, _ = h.Take(i, s, weir.Op{Key: "k", Limit: l, Cost: 1})
					}
				})
			}
			clients.Wait()
			if got := h.check(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// A refund that had no answer may be carried out whenever the store answers again, and not
// twice.
func TestLateRefund(t *testing.T) {
	for times, want := range []porcupine.CheckResult{porcupine.Ok, porcupine.Ok, porcupine.Illegal} {
		local := memory.New(memory.Options{MaxBytes: 1 << 20})
		defer local.Close()
		out := altered{local, func([]weir.Op) error { return errors.New("the store is away") }}
		l := weir.PerDay(100, algorithm.FixedWindow)
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		var h History
		take := func(s weir.Store, v weir.Verb) {
			o := weir.Op{Key: "k", Limit: l, Cost: 2, Verb: v}
			if v == weir.Refund {
				o.Role = weir.Always
			}
			_, _ = h.Take(0, s, o)
		}
		for range 5 {
			take(local, weir.Spend)
		}
		take(out, weir.Refund)
		take(local, weir.Spend)
		for range times {
			back := []weir.Op{{Key: "k", Limit: l, Cost: 2, Verb: weir.Refund, Role: weir.Always}}
			if err := local.Take(t.Context(), back); err != nil {
				t.Fatal(err)
			}
		}
		take(local, weir.Spend)
		if got := h.check(); got != want {
			t.Errorf("carried out %d times: %s, want %s", times, got, want)
		}
	}
}

// However many ops of many clients have no answer, the check ends: a tenth have none, of
// which half are carried out, those that a node keeps much later.
func TestManyWithoutAnswer(t *testing.T) {
	for extra, want := range []porcupine.CheckResult{porcupine.Ok, porcupine.Illegal} {
		local := memory.New(memory.Options{MaxBytes: 1 << 20})
		defer local.Close()
		l := weir.PerDay(300, algorithm.FixedWindow)
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		errLost := errors.New("the answer was lost")
		h := History{Late: 20 * time.Microsecond}
		var kept struct {
			sync.Mutex
			ops []weir.Op
		}
		var clients sync.WaitGroup
		for i := range 12 {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			s := altered{local, func(ops []weir.Op) error {
				switch rnd.IntN(20) {
				case 0:
					return errors.Join(local.Take(t.Context(), ops), errLost)
				case 1:
					if ops[0].Verb != weir.Spend {
						kept.Lock()
						defer kept.Unlock()
						kept.ops = append(kept.ops, ops[0])
					}
					return errLost
				}
				return local.Take(t.Context(), ops)
			}}
			clients.Go(func() {
				for n := range 60 {
					o := weir.Op{Key: "k", Limit: l, Cost: 1 + rnd.Int64N(3)}
					if n%10 == 0 {
						o.Verb, o.Role = []weir.Verb{weir.Force, weir.Refund}[rnd.IntN(2)], weir.Always
					}
					_, _ = h.Take(i, s, o)
				}
			})
		}
		clients.Wait()
		for n := range len(kept.ops) {
			if err := local.Take(t.Context(), kept.ops[n:n+1]); err != nil {
				t.Fatal(err)
			}
			_, _ = h.Take(0, local, weir.Op{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek})
		}
		if extra > 0 {
			all := []weir.Op{{Key: "k", Limit: l, Cost: 300, Verb: weir.Refund, Role: weir.Always}}
			if err := local.Take(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			_, _ = h.Take(0, local, weir.Op{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek})
		}
		if got := h.check(); got != want {
			t.Errorf("%d refunds of all: %s, want %s", extra, got, want)
		}
		if h.Unknown() < 40 {
			t.Errorf("%d ops had no answer", h.Unknown())
		}
	}
}
