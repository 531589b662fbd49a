// Package queuetest is the conformance suite of queues of events: what
// event.Queue and event.Source promise, against a broker that works, dies,
// stands still, and holds what is no event.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/limits"
)

// Source is what the queues' sources are.
type Source interface {
	event.Source
	// DeadLetters returns how many messages moved to the dead-letter queue, Dropped how many
	// were dropped because that refused them.
	DeadLetters() uint64
	Dropped() uint64
}

// Broker is a queue that nobody has used yet, on a real broker.
type Broker struct {
	Open    func(t testing.TB) event.Queue
	Consume func(t testing.TB) Source
	// Send puts a message into the queue that the package did not write.
	Send func(t testing.TB, contentType string, body []byte)
	// DeadLetters returns n messages of the dead-letter queue.
	DeadLetters func(t testing.TB, n int) [][]byte
	// Refuse makes the dead-letter queue refuse everything.
	Refuse func(t testing.TB)
	// Kill ends the broker as a crash would, Restart starts it again, Stall makes
	// it stand still or go on. Nil where the broker cannot be harmed.
	Kill, Restart func(t testing.TB)
	Stall         func(t testing.TB, stalled bool)
}

// Run tests a queue. fresh returns another one each time.
func Run(t *testing.T, fresh func(t testing.TB) *Broker) {
	for _, c := range []struct {
		name  string
		harms bool
		test  func(*testing.T, *Broker)
	}{
		{"Whole", false, testWhole},
		{"FailedTake", false, testFailedTake},
		{"Shared", false, testShared},
		{"Unreadable", false, testUnreadable},
		{"Refused", false, testRefused},
		{"Stalled", true, testStalled},
		{"Killed", true, testKilled},
		{"Closed", false, testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := fresh(t)
			if c.harms && b.Kill == nil {
				t.Skip("this broker cannot be harmed")
			}
			if c.harms && testing.Short() {
				t.Skip("starting brokers again takes seconds")
			}
			leaks := goleak.IgnoreCurrent()
			c.test(t, b)
			if !t.Failed() {
				// A broker that was started again outlives the test.
				goleak.VerifyNone(t, leaks, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"))
			}
		})
	}
}

const within = 2 * time.Minute

// events returns n events of all kinds, numbered from first on.
func events(first, n int) []event.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
	out := make([]event.Event, n)
	for i := range out {
		seq := first + i
		ref := event.LimitRef{Name: limits.Name{Domain: "api", Rule: "login_é", Limit: "5/minute"}, Algorithm: "sliding_log", Allowance: 5, PeriodMS: 60_000, Burst: 5}
		e := event.Event{Source: "node/01", Region: "eu-1", Sequence: uint64(seq), Time: at.Add(time.Duration(seq) * time.Microsecond)}
		switch seq % 10 {
		case 1:
			e.Rollup = &event.Rollup{From: at, To: at.Add(time.Minute), LimitRef: ref, Counts: map[string]uint64{"allowed": 1<<60 + uint64(seq)},
				Latency:   &event.Latency{Every: 256, Counts: []event.LatencyCount{{Bucket: 9, Count: uint64(seq)}}},
				Responses: &event.ResponseTotals{OK: uint64(seq), Redirect: 1, Denied: 2, ClientError: 3, ServerError: 4, TotalUS: 900, LongestUS: 70, Times: []event.LatencyCount{{Bucket: 110, Count: uint64(seq)}}}}
		case 2:
			e.Loss = &event.Loss{Dropped: 1, Discarded: 2, Rollups: 3, Failed: uint64(seq)}
		default:
			e.Record = &event.Record{First: at, Last: at, LimitRef: ref, Key: fmt.Sprintf("k\x1f\"%d", seq), Outcome: "refused",
				Count: int64(seq), Decisive: 2, Cost: 4, Least: -1, RetryMS: -1, Source: "store", Every: 1,
				About:    &event.About{Address: "203.0.113.7", Method: "GET", Path: "/é", Agent: "curl", Users: 16},
				Answers:  &event.Answers{Count: 2, OK: 1, ServerError: 1, TotalMS: 7, LongestMS: 6},
				Arrivals: []event.Arrival{{AtUS: 0, Cost: 1}, {AtUS: int64(seq), Cost: 3}}, ArrivalsCut: true}
		}
		out[i] = e
	}
	return out
}

// received is what came. Safe for concurrent use.
type received struct {
	mu     sync.Mutex
	events map[string]event.Event
	count  int
}

func (h *received) take(_ context.Context, batch []event.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.events == nil {
		h.events = map[string]event.Event{}
	}
	for _, e := range batch {
		h.events[e.ID()] = e
	}
	h.count += len(batch)
	return nil
}

// distinct returns how many different events came, and how many in all.
func (h *received) distinct() (different, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events), h.count
}

// misses returns how many of the events did not come whole.
func (h *received) misses(want []event.Event) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, e := range want {
		if !reflect.DeepEqual(h.events[e.ID()], e) {
			n++
		}
	}
	return n
}

// receive runs a source until the function that it returns is called.
func receive(t *testing.T, s event.Source, take func(context.Context, []event.Event) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Receive(ctx, take) }()
	return func() {
		t.Helper()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Receive: %v", err)
			}
		case <-time.After(within):
			t.Fatal("Receive did not end with its context")
		}
	}
}

// publish publishes a batch. A broker that has just been started, or is busy, may
// refuse one that it takes a moment later.
func publish(t *testing.T, q event.Queue, batch []event.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	const tries = 5
	for try := 1; ; try++ {
		err := q.Publish(ctx, batch)
		if err == nil {
			return
		}
		if try == tries || ctx.Err() != nil {
			t.Fatalf("Publish, %d times: %v", try, err)
		}
		t.Logf("Publish: %v", err)
		<-time.After(200 * time.Millisecond)
	}
}

func end(t *testing.T, what interface{ Close() error }) {
	t.Helper()
	if err := what.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Everything published comes, whole, however large the batches are.
func testWhole(t *testing.T, b *Broker) {
	q, s := b.Open(t), b.Consume(t)
	defer end(t, q)
	defer end(t, s)
	want := events(1, 3000)
	for i := range 12 {
		want[500+i*100+7].Record = &event.Record{Key: string(make([]byte, 4000)), Outcome: "refused"} // 48 kB as JSON
	}
	expected := slices.Clone(want)
	publish(t, q, expected[:1])
	publish(t, q, expected[1:2500])
	publish(t, q, nil)
	publish(t, q, expected[2500:])
	clear(expected) // the queue must not keep the slice
	var got received
	stop := receive(t, s, got.take)
	servertest.Await(t, "all events", func() bool { n, _ := got.distinct(); return n == len(want) })
	stop()
	if n := got.misses(want); n > 0 {
		t.Errorf("%d of %d events are not what was published", n, len(want))
	}
	if s.DeadLetters() != 0 || s.Dropped() != 0 {
		t.Errorf("%d dead letters, %d messages dropped", s.DeadLetters(), s.Dropped())
	}
}

// What take does not take comes again, to the same source and to the next.
func testFailedTake(t *testing.T, b *Broker) {
	q, s := b.Open(t), b.Consume(t)
	defer end(t, q)
	want := events(1, 200)
	publish(t, q, want)
	var got received
	failures := make(chan struct{}, 1000)
	refuse := func(context.Context, []event.Event) error {
		failures <- struct{}{}
		return errors.New("the database is away")
	}
	stop := receive(t, s, refuse)
	servertest.Await(t, "a second offer", func() bool { return len(failures) >= 2 })
	stop()
	end(t, s)
	next := b.Consume(t)
	tries := 0
	stop = receive(t, next, func(ctx context.Context, batch []event.Event) error {
		if tries++; tries == 1 {
			return errors.New("the database is still away")
		}
		return got.take(ctx, batch)
	})
	servertest.Await(t, "all events", func() bool { n, _ := got.distinct(); return n == len(want) })
	stop()
	if n := got.misses(want); n > 0 {
		t.Errorf("%d of %d events are not what was published", n, len(want))
	}
	// What was taken is done with: the next source hears of what comes later only.
	end(t, next)
	last := b.Consume(t)
	defer end(t, last)
	var later received
	stop = receive(t, last, later.take)
	publish(t, q, events(1001, 10))
	servertest.Await(t, "later events", func() bool { n, _ := later.distinct(); return n >= 10 })
	stop()
	if n, _ := later.distinct(); n != 10 {
		t.Errorf("%d events came, want the 10 that were not taken yet", n)
	}
}

// Two sources share the events.
func testShared(t *testing.T, b *Broker) {
	q := b.Open(t)
	defer end(t, q)
	var got [2]received
	for i := range got {
		s := b.Consume(t)
		defer end(t, s)
		defer receive(t, s, got[i].take)()
	}
	var want []event.Event
	servertest.Await(t, "events at both sources", func() bool {
		batch := events(len(want)+1, 20)
		publish(t, q, batch)
		want = append(want, batch...)
		first, _ := got[0].distinct()
		second, _ := got[1].distinct()
		return first > 0 && second > 0
	})
	servertest.Await(t, "all events at one of them", func() bool {
		missing := 0
		for _, e := range want {
			if one := []event.Event{e}; got[0].misses(one)+got[1].misses(one) == 2 {
				missing++
			}
		}
		return missing == 0
	})
	for i := range got {
		if n, _ := got[i].distinct(); n == len(want) {
			t.Errorf("source %d had all %d events: they were not shared", i, n)
		}
	}
}

// A message that is not an event moves to the dead-letter queue, is counted and delays no other.
func testUnreadable(t *testing.T, b *Broker) {
	q, s := b.Open(t), b.Consume(t)
	defer end(t, q)
	defer end(t, s)
	publish(t, q, events(1, 10))
	bad := []string{"no event at all", `{"specversion":"1.0","id":"1","source":"/weir/n","type":"com.github.weirlimit.weir.record.v9","data":{}}`}
	for _, body := range bad {
		b.Send(t, event.ContentType, []byte(body))
	}
	publish(t, q, events(11, 10))
	var got received
	stop := receive(t, s, got.take)
	servertest.Await(t, "the events around it", func() bool { n, _ := got.distinct(); return n == 20 && s.DeadLetters() == 2 })
	stop()
	if n := got.misses(events(1, 20)); n > 0 {
		t.Errorf("%d events are not what was published", n)
	}
	dead := b.DeadLetters(t, len(bad))
	for _, body := range bad {
		if !slices.ContainsFunc(dead, func(a []byte) bool { return string(a) == body }) {
			t.Errorf("%q is not among the dead letters: %q", body, dead)
		}
	}
	// It is not met again.
	again := b.Consume(t)
	defer end(t, again)
	var later received
	stop = receive(t, again, later.take)
	publish(t, q, events(21, 1))
	servertest.Await(t, "one more event", func() bool { n, _ := later.distinct(); return n == 1 })
	stop()
	if again.DeadLetters() != 0 {
		t.Errorf("%d messages became dead letters a second time", again.DeadLetters())
	}
}

// A dead letter that the dead-letter queue refuses is retried until the bound, then dropped
// and counted, and the events around it come.
func testRefused(t *testing.T, b *Broker) {
	if testing.Short() {
		t.Skip("the bound takes ten seconds")
	}
	b.Refuse(t)
	q, s := b.Open(t), b.Consume(t)
	defer end(t, q)
	publish(t, q, events(1, 10))
	for i := range 3 {
		b.Send(t, event.ContentType, fmt.Appendf(nil, "no event %d", i))
	}
	publish(t, q, events(11, 10))
	var got received
	start := time.Now()
	stop := receive(t, s, got.take)
	servertest.Await(t, "the events around it", func() bool { return got.misses(events(1, 20)) == 0 && s.Dropped() == 3 })
	if d := time.Since(start); d < broker.MaxDeadLetterWait {
		t.Errorf("messages were left out after %s, before the bound of %s", d, broker.MaxDeadLetterWait)
	}
	// Nothing waits for it any more, at this source or at the next.
	publish(t, q, events(21, 10))
	servertest.Await(t, "later events", func() bool { return got.misses(events(1, 30)) == 0 })
	stop()
	end(t, s)
	next := b.Consume(t)
	defer end(t, next)
	var later received
	stop = receive(t, next, later.take)
	publish(t, q, events(31, 10))
	servertest.Await(t, "events at the next source", func() bool { return later.misses(events(31, 10)) == 0 })
	stop()
	if s.DeadLetters() != 0 || next.DeadLetters() != 0 || next.Dropped() != 0 {
		t.Errorf("%d dead letters; %d and %d were met again, of 3 that were dropped", s.DeadLetters(), next.DeadLetters(), next.Dropped())
	}
}

// A broker that stands still ends Publish with its context.
func testStalled(t *testing.T, b *Broker) {
	q, s := b.Open(t), b.Consume(t)
	defer end(t, q)
	defer end(t, s)
	publish(t, q, events(1, 10))
	b.Stall(t, true)
	bounded(t, q, events(11, 1000))
	bounded(t, q, events(11, 1000))
	b.Stall(t, false)
	start := time.Now()
	publish(t, q, events(11, 1000))
	t.Logf("published %s after the broker went on", time.Since(start))
	var got received
	stop := receive(t, s, got.take)
	servertest.Await(t, "all events", func() bool { return got.misses(events(1, 1010)) == 0 })
	// A source beside a broker that stands still ends with its context too.
	b.Stall(t, true)
	start = time.Now()
	stop()
	if d := time.Since(start); d > time.Minute {
		t.Errorf("Receive took %s to end", d)
	}
	b.Stall(t, false)
}

// bounded expects Publish to fail when its context ends.
func bounded(t *testing.T, q event.Queue, batch []event.Event) {
	t.Helper()
	const bound, grace = 400 * time.Millisecond, 30 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	start := time.Now()
	err := q.Publish(ctx, batch)
	if err == nil {
		t.Error("Publish has an answer of a broker that gives none")
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Publish: %v, want the context's error", err)
	}
	if d := time.Since(start); d > bound+grace {
		t.Errorf("Publish took %s of its %s", d, bound)
	}
}

// A broker that dies loses nothing that it has confirmed, and while it is gone
// Publish ends with its context.
func testKilled(t *testing.T, b *Broker) {
	q, s := b.Open(t), b.Consume(t)
	defer end(t, q)
	defer end(t, s)
	var got received
	stop := receive(t, s, got.take)
	confirmed := make(chan int, 1000)
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for i := range 60 {
			batch := events(1+i*50, 50)
			for ends := time.Now().Add(within); ; {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				err := q.Publish(ctx, batch)
				cancel()
				if err == nil {
					break
				}
				if time.Now().After(ends) {
					t.Errorf("Publish, long after the restart: %v", err)
					return
				}
			}
			confirmed <- i
		}
	})
	servertest.Await(t, "some batches", func() bool { return len(confirmed) >= 10 })
	b.Kill(t)
	other := b.Open(t)
	bounded(t, other, events(1, 10))
	end(t, other)
	b.Restart(t)
	publisher.Wait()
	servertest.Await(t, "everything that was confirmed", func() bool { return got.misses(events(1, 50*len(confirmed))) == 0 })
	stop()
}

// Close ends everything, and says so from then on.
func testClosed(t *testing.T, b *Broker) {
	q, s := b.Open(t), b.Consume(t)
	publish(t, q, events(1, 10))
	var got received
	done := make(chan error, 1)
	go func() { done <- s.Receive(t.Context(), got.take) }()
	servertest.Await(t, "all events", func() bool { n, _ := got.distinct(); return n == 10 })
	end(t, s)
	if err := <-done; !errors.Is(err, event.ErrClosed) {
		t.Errorf("Receive: %v, want %v", err, event.ErrClosed)
	}
	if err := s.Receive(t.Context(), got.take); !errors.Is(err, event.ErrClosed) {
		t.Errorf("Receive after Close: %v, want %v", err, event.ErrClosed)
	}
	end(t, q)
	if err := q.Publish(t.Context(), events(11, 1)); !errors.Is(err, event.ErrClosed) {
		t.Errorf("Publish after Close: %v, want %v", err, event.ErrClosed)
	}
	end(t, s)
	end(t, q)
}
