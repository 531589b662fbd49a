package transport

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
	"github.com/weirlimit/weir/store/memory"
)

// parted is a store of some parts: the first letter of a key says of which it is.
type parted struct {
	*testing.T
	parts        []*memory.Store
	mu           sync.Mutex
	asked        []string // the calls: part, verbs
	undone, lost int
	before       func(part int, ops []weir.Op) error // what happens before a call
}

var errNoAnswer, errNotSent error = errors.New("no answer"), &Result{Outcome: Failed, Err: errors.New("not sent")}

func newParted(t *testing.T, parts int) *parted {
	a := &parted{T: t, before: func(int, []weir.Op) error { return nil }}
	for range parts {
		s := memory.New(memory.Options{MaxBytes: 1 << 20, Now: func() int64 { return 1_700_000_000_000_000 }})
		t.Cleanup(func() { s.Close() })
		a.parts = append(a.parts, s)
	}
	return a
}

func (a *parted) Part(key string) int { return int(key[0] - 'a') }

func (a *parted) takePart(ctx context.Context, ops []weir.Op) ([]bool, error) {
	part := a.Part(ops[0].Key)
	for i := range ops {
		if a.Part(ops[i].Key) != part {
			a.Errorf("a call of two parts")
		}
	}
	a.mu.Lock()
	a.asked = append(a.asked, fmt.Sprint(ops[0].Key[:1], " ", ops[0].Verb))
	err := a.before(part, ops)
	a.mu.Unlock()
	if errors.Is(err, errNotSent) {
		return nil, err
	}
	if err := a.parts[part].Take(ctx, ops); err != nil {
		return nil, err
	}
	return nil, err
}

func (a *parted) undo(ctx context.Context, ops []weir.Op, _ func(error)) (bool, error) {
	_, err := a.takePart(ctx, ops)
	return false, err
}

func (a *parted) LeavesTrace(l *weir.Limit) bool { return l.Algorithm != algorithm.FixedWindow }

func (a *parted) Undone(ops int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.undone += ops; err != nil {
		a.lost += max(ops, 1)
	}
}

func (a *parted) Check([]weir.Op) error { return nil }

func (a *parted) take(ops ...weir.Op) ([]weir.Op, error) {
	a.asked = nil
	return ops, decideAcrossParts(context.Background(), NewEnv(nil, nil), ops, a, a.takePart, a.undo)
}

func (a *parted) left(key string, l *weir.Limit) int64 {
	ops := []weir.Op{{Key: key, Limit: l, Cost: 1, Verb: weir.Peek}}
	if err := a.parts[a.Part(key)].Take(context.Background(), ops); err != nil {
		a.Fatal(err)
	}
	return ops[0].Decision.Remaining
}

func limit(t *testing.T, count int64, a weir.Algorithm) *weir.Limit {
	l := &weir.Limit{Name: "limit", Algorithm: a, Count: count, Period: time.Hour}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// Spends that can be given back are charged at once, and given back if a later one refuses:
// then each says what a look says.
func TestCrossGivesBack(t *testing.T) {
	a, l := newParted(t, 3), limit(t, 5, algorithm.FixedWindow)
	ops := []weir.Op{{Key: "a", Limit: l, Cost: 2}, {Key: "b", Limit: l, Cost: 2}, {Key: "c", Limit: l, Cost: 2}}
	for i := range 3 {
		ops, err := a.take(ops...)
		if pass := i < 2; err != nil || weir.Fold(ops).Allowed() != pass || ops[0].Charged != pass || ops[1].Charged != pass || ops[2].Charged != pass {
			t.Errorf("%d: %v %+v", i, err, ops)
		}
	}
	if got := strings.Join(a.asked, ", "); got != "a spend, b peek, c peek" {
		t.Error(got)
	}
	if _, err := a.take(weir.Op{Key: "c2", Limit: l, Cost: 1}, ops[0]); err != nil || a.undone != 1 || a.left("c2", l) != 5 || a.left("a", l) != 1 {
		t.Errorf("%v, %d undone, %d and %d left", err, a.undone, a.left("c2", l), a.left("a", l))
	}
}

// What is not given back without a trace is looked at first, and charged last. A request
// that is overtaken again and again is refused in the end, and charged what that charges.
func TestCrossOvertaken(t *testing.T) {
	a := newParted(t, 3)
	log, ban, l := limit(t, 100, algorithm.SlidingLog), limit(t, 1, algorithm.FixedWindow), limit(t, 100, algorithm.FixedWindow)
	// Whenever the request has been looked at, another one takes what is left of b.
	looks := 0
	a.before = func(part int, ops []weir.Op) error {
		switch {
		case part == 1 && ops[0].Verb == weir.Peek:
			looks++
		case part == 1 && ops[0].Verb == weir.Spend && ops[0].Role == weir.Enforce:
			steal := []weir.Op{{Key: "b", Limit: log, Cost: 100, Verb: weir.Force}}
			return a.parts[1].Take(context.Background(), steal)
		case part == 0 && ops[0].Verb == weir.Peek && looks > 0:
			forget := []weir.Op{{Key: "b", Limit: log, Cost: 100, Verb: weir.Refund}}
			return a.parts[1].Take(context.Background(), forget)
		}
		return nil
	}
	ops, err := a.take(weir.Op{Key: "a", Limit: l, Cost: 1}, weir.Op{Key: "c", Limit: ban, Cost: 1, Role: weir.Ban}, weir.Op{Key: "b", Limit: log, Cost: 1})
	if err != nil || ops[0].Charged || !ops[1].Charged || ops[2].Charged || ops[2].Decision.Allowed() || looks != maxRounds {
		t.Errorf("%v after %d looks: %+v", err, looks, ops)
	}
	if a.left("a", l) != 100 || a.left("c", ban) != 0 {
		t.Errorf("%d left, %d of the ban", a.left("a", l), a.left("c", ban))
	}
}

// A refund comes when all that must allow has. If it may have been carried out the rest
// stays charged, else it is given back.
func TestCrossRefundsLast(t *testing.T) {
	for _, fault := range []error{nil, errNoAnswer, errNotSent} {
		a, l, mark := newParted(t, 2), limit(t, 10, algorithm.FixedWindow), limit(t, 1, algorithm.SlidingLog)
		if _, err := a.take(weir.Op{Key: "a", Limit: l, Cost: 8, Role: weir.Always, Verb: weir.Force}, weir.Op{Key: "b", Limit: l, Cost: 1, Role: weir.Always, Verb: weir.Force}); err != nil {
			t.Fatal(err)
		}
		a.before = func(part int, ops []weir.Op) error {
			if part == 0 && ops[0].Verb == weir.Refund {
				return fault
			}
			return nil
		}
		settle := []weir.Op{{Key: "a", Limit: l, Cost: 3, Role: weir.Always, Verb: weir.Refund}, {Key: "b2", Limit: mark, Cost: 1}}
		for range 2 {
			_, err := a.take(settle...)
			if !errors.Is(err, fault) {
				t.Fatal(err)
			}
			if fault = nil; a.left("b2", mark) == 1 {
				continue // it was given back, and is asked again
			}
			break
		}
		if left := a.left("a", l); left != 5 || a.left("b2", mark) != 0 {
			t.Errorf("%v: %d left of 10, %d of the mark, %d undone, %d lost, %v", a.before(0, settle), left, a.left("b2", mark), a.undone, a.lost, a.asked)
		}
	}
}

// Many random requests at once: each is decided, and charged all or nothing.
func TestCrossAllOrNothing(t *testing.T) {
	a := newParted(t, 3)
	limits := []*weir.Limit{limit(t, 300, algorithm.FixedWindow), limit(t, 300, algorithm.SlidingLog), limit(t, 300, algorithm.SlidingWindow)}
	var mu sync.Mutex
	charged, refused := map[string]int64{}, 0
	var callers sync.WaitGroup
	for seed := range uint64(6) {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(seed, 5))
			for range 300 {
				var ops []weir.Op
				for _, i := range r.Perm(9)[:2+r.IntN(3)] {
					ops = append(ops, weir.Op{Key: string(rune('a' + i%3)), Limit: limits[i/3], Cost: 1 + r.Int64N(2), Headroom: int64(r.IntN(9) / 8)})
				}
				if err := decideAcrossParts(context.Background(), NewEnv(nil, nil), ops, a, a.takePart, a.undo); err != nil {
					t.Error(err)
					return
				}
				again := append([]weir.Op(nil), ops...)
				pass := weir.Resolve(again)
				mu.Lock()
				for i, o := range ops {
					if o.Charged != pass || o.Charged != again[i].Charged {
						t.Errorf("charged %v, passes %v: %+v", o.Charged, pass, ops)
					}
					if o.Charged {
						charged[fmt.Sprint(o.Key, o.Limit.Algorithm.Name())] += o.Cost
					}
				}
				if !pass {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	for i := range 9 {
		l, key := limits[i/3], string(rune('a'+i%3))
		if used := 300 - a.left(key, l); used < charged[fmt.Sprint(key, l.Algorithm.Name())] || a.lost > 0 {
			t.Errorf("%s of %s: %d are used, %d were charged, %d lost", key, l.Algorithm.Name(), used, charged[fmt.Sprint(key, l.Algorithm.Name())], a.lost)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
