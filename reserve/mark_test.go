package reserve_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/reserve"
)

// asked notes by which limits a store is asked.
type asked struct {
	weir.Store
	limits map[*weir.Limit]bool
}

func (s asked) Take(ctx context.Context, ops []weir.Op) error {
	for i := range ops {
		s.limits[ops[i].Limit] = true
	}
	return s.Store.Take(ctx, ops)
}

// However many reservations there are, their marks are of few limits: a store keeps a plan
// of each.
func TestMarksAreOfFewLimits(t *testing.T) {
	store := asked{clocked.New(t), map[*weir.Limit]bool{}}
	lim, err := weir.New(store, weir.Limits{weir.PerHour(1_000_000, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := reserve.New(lim, reserve.Options{TTL: time.Second + time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(100) {
		res, err := s.Reserve(t.Context(), request(50, "ann"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(t.Context(), res.Handle, i); err != nil {
			t.Fatal(err)
		}
	}
	if len(store.limits) > 3 {
		t.Errorf("asked by %d limits", len(store.limits))
	}
}

// A reservation is settled once while it lasts, also by a node whose own end much earlier.
func TestMarkLastsAsLongAsTheReservation(t *testing.T) {
	store, rules := clocked.New(t), weir.Limits{weir.PerDay(1000, algorithm.FixedWindow)}
	long := newDesk(t, store, rules, reserve.Options{Secret: secret, TTL: 12 * time.Hour})
	brief := newDesk(t, store, rules, reserve.Options{Secret: secret, TTL: time.Second})
	h := long.reserve(100, "ann")
	if _, err := brief.Commit(t.Context(), h, 50); err != nil {
		t.Fatal(err)
	}
	store.Advance(12*time.Hour - time.Second)
	for _, d := range []*desk{long, brief} {
		if got, err := d.Commit(t.Context(), h, 60); !errors.Is(err, reserve.ErrSettled) || got.Actual != 50 {
			t.Errorf("settled again: %+v, %v", got, err)
		}
	}
}
