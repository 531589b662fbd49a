package event_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/bubble"
)

func numbered(from, to uint64) (out []event.Event) {
	for i := from; i <= to; i++ {
		out = append(out, event.Event{Source: "n/1", Sequence: i, Record: &event.Record{Outcome: []string{"refused", "allowed"}[i%2]}})
	}
	return out
}

// hear returns what a subscription has by now.
func hear(t *testing.T, s *event.Subscription) (sequences []uint64, missed uint64) {
	t.Helper()
	events, missed, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		sequences = append(sequences, e.Sequence)
	}
	return sequences, missed
}

// Each subscriber hears what it asked for; one that is slow misses the oldest, is
// told how many, and holds up nobody.
func TestBroadcast(t *testing.T) {
	b := event.NewBroadcast(2)
	all, err := b.Subscribe(100, nil)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := b.Subscribe(3, func(e *event.Event) bool { return e.Record.Outcome == "refused" })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Subscribe(1, nil); !errors.Is(err, event.ErrTooMany) {
		t.Errorf("a third: %v", err)
	}
	for i := range uint64(10) {
		if err := b.Publish(t.Context(), numbered(2*i+1, 2*i+2)); err != nil {
			t.Fatal(err)
		}
	}
	if got, missed := hear(t, all); len(got) != 20 || got[0] != 1 || got[19] != 20 || missed != 0 {
		t.Errorf("all: %v and %d missed", got, missed)
	}
	if got, missed := hear(t, slow); len(got) != 3 || got[0] != 16 || got[2] != 20 || missed != 7 {
		t.Errorf("slow: %v and %d missed, want 16 18 20 and 7", got, missed)
	}
	if b.Dropped() != 7 || b.Subscribers() != 2 {
		t.Errorf("%d missed, %d subscribers", b.Dropped(), b.Subscribers())
	}
	if err := b.Publish(t.Context(), numbered(21, 22)); err != nil {
		t.Fatal(err)
	}
	if got, missed := hear(t, slow); len(got) != 1 || missed != 0 {
		t.Errorf("slow again: %v and %d missed", got, missed)
	}

	slow.Close()
	if _, err := b.Subscribe(1, nil); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := slow.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}

	// What is there is read to the end.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := hear(t, all); len(got) != 2 {
		t.Errorf("left: %v", got)
	}
	if _, _, err := all.Next(t.Context()); !errors.Is(err, event.ErrClosed) {
		t.Errorf("at the end: %v", err)
	}
	if err := b.Publish(t.Context(), numbered(1, 1)); !errors.Is(err, event.ErrClosed) {
		t.Errorf("published: %v", err)
	}
	if _, err := b.Subscribe(1, nil); !errors.Is(err, event.ErrClosed) {
		t.Errorf("subscribed: %v", err)
	}
	all.Close()
}

// never is a queue that takes nothing and never says so.
type never struct{}

func (never) Publish(ctx context.Context, _ []event.Event) error { <-ctx.Done(); return ctx.Err() }
func (never) Close() error                                       { return nil }

// While the queue takes nothing, who watches hears everything, the backlog stays
// within its bound, and the rest is counted.
func TestLiveWithoutQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		live := event.NewBroadcast(1)
		watching, err := live.Subscribe(1000, nil)
		if err != nil {
			t.Fatal(err)
		}
		const bound, keys = 4, 20
		b := observe(t, nil, event.Options{Queue: never{}, Live: live, MaxBacklog: bound}, weir.PerMinute(1, algorithm.FixedWindow))
		for i := range 2 * keys {
			if _, err := b.Take(t.Context(), string(rune('a'+i%keys)), 1); err != nil {
				t.Fatal(err)
			}
			if i%2 == 1 {
				time.Sleep(time.Second)
			}
		}
		synctest.Wait()
		got, missed := hear(t, watching)
		if len(got) < keys || missed != 0 {
			t.Errorf("heard of %d, missed %d, want %d", len(got), missed, keys)
		}
		s := b.Stats()
		if s.Backlog != bound || s.MaxBacklog != bound || !s.Down || s.Published != 0 {
			t.Errorf("%+v", s)
		}
		if err := b.stop(); err == nil {
			t.Error("the end was no error")
		}
		if s = b.Stats(); s.Backlog != 0 || s.Loss.Discarded != keys || s.Loss.Rollups == 0 {
			t.Errorf("at the end: %+v", s)
		}
	})
}

// slow is a queue that takes two seconds for a batch, and notes how often it was not
// given them.
type slow struct {
	kept
	aborted int
}

func (s *slow) Publish(ctx context.Context, batch []event.Event) error {
	select {
	case <-time.After(2 * time.Second):
		return s.kept.Publish(ctx, batch)
	case <-ctx.Done():
		s.aborted++
		return ctx.Err()
	}
}

// The end waits for a batch that is under way, and does not send it twice.
func TestEndWaitsForWhatIsUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := &slow{}
		b := observe(t, nil, event.Options{Queue: q}, weir.PerMinute(1, algorithm.FixedWindow))
		for range 2 {
			if _, err := b.Take(t.Context(), "a", 1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(1500 * time.Millisecond) // it is under way
		if _, err := b.Take(t.Context(), "b", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Take(t.Context(), "b", 1); err != nil {
			t.Fatal(err)
		}
		if err := b.stop(); err != nil || q.aborted != 0 {
			t.Errorf("%v, %d attempts were cut short", err, q.aborted)
		}
		told := q.tally(t)
		if told.rollups["rule0 refused"] != 2 || len(told.records) != 2 {
			t.Errorf("%+v", told)
		}
	})
}
