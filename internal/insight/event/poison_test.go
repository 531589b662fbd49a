package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

var errNever = errors.New("the message is larger than the largest")

// picky is a queue that refuses some events for ever, and all while it is away.
type picky struct {
	mu       sync.Mutex
	refused  map[uint64]bool
	unfit    bool // it says which ones
	away     bool
	got      map[uint64]int
	attempts int
}

func (q *picky) Publish(_ context.Context, batch []Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attempts++
	if q.away {
		return errors.New("away")
	}
	var unfit *Invalid
	for i, e := range batch {
		switch {
		case !q.refused[e.Sequence]:
		case !q.unfit:
			return errNever
		case unfit == nil:
			unfit = &Invalid{Events: []int{i}, Err: errNever}
		default:
			unfit.Events = append(unfit.Events, i)
		}
	}
	for _, e := range batch {
		if !q.refused[e.Sequence] {
			q.got[e.Sequence]++
		}
	}
	if unfit != nil {
		return unfit
	}
	return nil
}

func (q *picky) Close() error { return nil }

// Events that a queue refuses are set aside, counted and logged at most once a second,
// and all others go on, however many there are and wherever they stand, and while the
// queue is away in between nothing is set aside.
func TestFamilyPoison(t *testing.T) {
	rounds := 40
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 1000
	}
	rng := rand.New(rand.NewPCG(seeds.Of(t), 6))
	for round := range rounds {
		n := 1 + rng.IntN(3500)
		bad := map[uint64]bool{}
		for range []int{1, 1, 2, 40}[rng.IntN(4)] {
			at := 1 + rng.Uint64N(uint64(n))
			for range []int{1, 1, 30}[rng.IntN(3)] { // alone, or neighbours
				if at <= uint64(n) {
					bad[at] = true
				}
				at++
			}
		}
		if n == 3 {
			bad = map[uint64]bool{1: true, 2: true, 3: true}
		}
		unfit, away := rng.IntN(2) == 0, rng.IntN(3) == 0
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				began := time.Now()
				q := &picky{refused: bad, unfit: unfit, got: map[uint64]int{}}
				b := newOutbox(q, 10_000, slog.New(slog.NewTextHandler(&log, nil)))
				events := make([]Event, n)
				for i := range events {
					events[i] = Event{Source: "n/1", Sequence: uint64(i + 1), Record: &Record{Count: 1}}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var life sync.WaitGroup
				life.Go(func() { b.sendUntilEnd(ctx) })
				if away {
					q.mu.Lock()
					q.away = true
					q.mu.Unlock()
				}
				// One that it takes comes before, as always but for the first.
				b.addEvents(append([]Event{{Source: "n/1", Sequence: uint64(n + 1), Record: &Record{Count: 1}}}, events...))
				time.Sleep(time.Minute)
				if away {
					if s := b.readStats(); s.Rejected != 0 || s.Published != 0 || !s.Down {
						t.Errorf("while the queue is away: %+v", s)
					}
					q.mu.Lock()
					q.away = false
					q.mu.Unlock()
					time.Sleep(time.Minute)
				}
				// Others come, by which it is known that the queue takes any.
				good, further := n+1-len(bad), 0
				for ; further < 3*len(bad)+500 && int(b.readStats().Rejected) < len(bad); further++ {
					b.addEvents([]Event{{Source: "n/1", Sequence: uint64(n + 2 + further), Record: &Record{Count: 1}}})
					time.Sleep(time.Minute)
				}
				time.Sleep(time.Minute)
				good += further
				s := b.readStats()
				if int(s.Published) != good || int(s.Rejected) != len(bad) || s.Backlog != 0 || s.Down || s.Loss != (Loss{}) {
					t.Errorf("of %d events with %d bad ones: %+v", n+1, len(bad), s)
				}
				if l := b.readLoss(); int(l.Discarded) != len(bad) {
					t.Errorf("the loss is told as %+v", l)
				}
				for i := range uint64(n + 1 + further) {
					if got := q.got[i+1]; (got > 0) == bad[i+1] {
						t.Fatalf("event %d came %d times", i+1, got)
					}
				}
				if lines := strings.Count(log.String(), "rejected by the queue"); len(bad) > 0 && lines == 0 || lines > 1+int(time.Since(began).Seconds()) {
					t.Errorf("%d lines tell of %d events in %s:\n%.500s", lines, len(bad), time.Since(began), log.String())
				}
				close(b.ending)
				cancel()
				life.Wait()
			})
		})
	}
}

// At the end too: one event does not take the others of its batch along.
func TestPoisonAtTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := &picky{refused: map[uint64]bool{500: true}, got: map[uint64]int{}}
		b := newOutbox(q, 10_000, slog.New(slog.DiscardHandler))
		var events []Event
		for i := range 1000 {
			events = append(events, Event{Source: "n/1", Sequence: uint64(i + 1), Record: &Record{Count: 1}})
		}
		b.addEvents(events)
		if err := b.flushEvents(t.Context()); err != nil {
			t.Error(err)
		}
		if s := b.readStats(); s.Published != 999 || s.Rejected != 1 || b.readLoss().Discarded != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// One line says that the queue takes nothing, one that it does again, and none where it
// refuses single events, however many come and however often.
func TestFamilyQueueOutageIsToldOnce(t *testing.T) {
	rounds := 20
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 400
	}
	rng := rand.New(rand.NewPCG(seeds.Of(t), 7))
	for range rounds {
		bubble.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			q := &picky{refused: map[uint64]bool{}, unfit: rng.IntN(2) == 0, got: map[uint64]int{}}
			b := newOutbox(q, 10_000, slog.New(slog.NewTextHandler(&log, nil)))
			ctx, cancel := context.WithCancel(t.Context())
			var life sync.WaitGroup
			life.Go(func() { b.sendUntilEnd(ctx) })
			defer func() {
				close(b.ending)
				cancel()
				life.Wait()
			}()
			next, bad := uint64(1), 0
			batch := func() {
				events := make([]Event, 20+rng.IntN(200))
				for i := range events {
					events[i] = Event{Source: "n/1", Sequence: next, Record: &Record{Count: 1}}
					next++
				}
				if rng.IntN(2) == 0 {
					q.mu.Lock()
					// Others follow, by which it is known that the queue takes any.
					q.refused[events[rng.IntN(len(events)-5)].Sequence] = true
					q.mu.Unlock()
					bad++
				}
				b.addEvents(events)
				time.Sleep(time.Minute)
			}
			lines := func(what string) int {
				synctest.Wait() // for what the outbox has logged
				return strings.Count(log.String(), what)
			}
			for range 10 {
				batch()
			}
			if lines("queue unavailable") > 0 || lines("queue recovered") > 0 {
				t.Fatalf("the queue refused single events:\n%s", log.String())
			}
			set := func(away bool) {
				q.mu.Lock()
				defer q.mu.Unlock()
				q.away = away
			}
			set(true)
			for range 1 + rng.IntN(5) {
				batch()
			}
			if lines("queue unavailable") != 1 || lines("queue recovered") > 0 {
				t.Fatalf("the queue is away:\n%s", log.String())
			}
			set(false)
			for range 10 {
				batch()
			}
			if lines("queue unavailable") != 1 || lines("queue recovered") != 1 || !strings.Contains(log.String(), "after=") {
				t.Fatalf("the queue is back:\n%s", log.String())
			}
			if s := b.readStats(); int(s.Rejected) != bad || s.Backlog != 0 {
				t.Errorf("%d bad events: %+v", bad, s)
			}
		})
	}
}
