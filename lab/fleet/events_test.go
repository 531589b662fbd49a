package fleet

import (
	"context"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/queue/rabbitmq"
	"github.com/weirlimit/weir/internal/testing/queuetest"
	"github.com/weirlimit/weir/internal/testing/queuetest/brokers"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// broker carries the events of a node.
type broker struct{ *queuetest.Process }

func rabbitBroker(t *testing.T) *broker { return &broker{brokers.RabbitMQ(t)} }

// url names a queue.
func (b *broker) url(queue string) string { return "amqp://guest:guest@" + b.Addr + "?queue=" + queue }

func (b *broker) consume(t *testing.T, queue string) event.Source {
	t.Helper()
	s, err := rabbitmq.Consume(b.url(queue), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// channel opens a channel of a connection until the test ends.
func (b *broker) channel(t *testing.T) *amqp.Channel {
	t.Helper()
	c, err := amqp.Dial("amqp://" + b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the broker may have ended it
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// small makes a queue that is full after two messages.
func (b *broker) small(t *testing.T, queue string) {
	t.Helper()
	full := amqp.Table{"x-max-length": 2, "x-overflow": "reject-publish"}
	if _, err := b.channel(t).QueueDeclare(queue, true, false, false, false, full); err != nil {
		t.Fatal(err)
	}
}

// Whatever becomes of the broker, every request is answered, what waits for it stays
// within its bound, and what it did not take in time is counted; when it is back,
// all that was not counted as lost arrives, each event once by its name. Analytics
// that die before the broker hears what they have counted count it once.
func TestBrokerFails(t *testing.T) {
	processes(t)
	b := rabbitBroker(t)
	t.Run("unacknowledged", func(t *testing.T) { unacknowledged(t, b) })
	t.Run("killed", func(t *testing.T) {
		outage(t, b, "killed", func() { b.Kill(t) }, func() { b.Restart(t) })
	})
	t.Run("stalled", func(t *testing.T) {
		outage(t, b, "stalled", func() { b.Stall(t, true) }, func() { b.Stall(t, false) })
	})
	t.Run("full", func(t *testing.T) {
		b.small(t, "full")
		outage(t, b, "full", func() {}, func() {})
	})
}

const (
	// backlog is the most events that wait, crowd how many clients come in an outage:
	// each is two events.
	backlog, crowd = 1000, 1200
	// few come before and after it.
	few = 50
)

func outage(t *testing.T, b *broker, queue string, begin, end func()) {
	nodes := besides(t, "--events", b.url(queue), "--events-sample", "1", "--config", servertest.Config(t, "events: {backlog: %d}", backlog))
	n := nodes.told
	var calm, faulty came
	come := func(from, to int) { nodes.come(t, &calm, from, to) }
	published := func() float64 { return n.metric(t, "weir_events_published_total") }
	come(0, few)
	servertest.Await(t, "the first events to be taken", func() bool { return published() > 0 })

	begin()
	watching, watched := make(chan struct{}), make(chan float64)
	go func() {
		most := 0.0
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-watching:
				watched <- most
				return
			case <-tick.C:
				most = max(most, n.metric(t, "weir_events_backlog"))
			}
		}
	}()
	const lost = `weir_events_dropped_total{reason="queue_full"}`
	// Each client is two events of one decision; those of the last second are told at
	// its end.
	told := func(clients int) {
		t.Helper()
		servertest.Await(t, "all decisions to be told", func() bool {
			return published()+n.metric(t, "weir_events_backlog")+n.metric(t, lost) >= float64(2*clients)
		})
	}
	to := few
	// Not so many in one second that some are merged, however fast the machine is.
	for to < few+crowd || n.metric(t, lost) == 0 && to < 100*crowd {
		nodes.come(t, &faulty, to, to+crowd/4)
		to += crowd / 4
		told(to)
	}
	if n.metric(t, lost) == 0 {
		t.Fatal("no event was dropped")
	}
	close(watching)
	if most := max(<-watched, n.metric(t, "weir_events_backlog")); most > backlog || most < backlog/2 {
		t.Errorf("%g events waited, want at most %d, and not much less", most, backlog)
	}
	faulty.unharmed(t, "during the fault", to-few)
	end()

	got := take(t, b, queue)
	come(to, to+few)
	told(to + few)
	servertest.Await(t, "the queue to take what waits", func() bool {
		return n.metric(t, "weir_events_backlog") == 0 && n.metric(t, "weir_events_queue_up") == 1
	})
	gone := int64(n.metric(t, lost) + n.metric(t, `weir_events_dropped_total{reason="ring_full"}`))
	if rollups := n.metric(t, "weir_events_rollups_dropped_total"); rollups != 0 {
		t.Errorf("%g roll-ups were dropped", rollups)
	}
	// The end tells the rest.
	if err := n.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if code, err := n.Wait(ctx); err != nil || code != 0 {
		t.Fatalf("ended with %d, %v", code, err)
	}
	all := int64(2 * (to + few))
	servertest.Await(t, "all to arrive", func() bool { return got.rollups() >= all })
	records, loss, twice := got.end()
	t.Logf("%d decisions, %d told, %d lost, %d events came twice", all, records, gone, twice)
	calm.unharmed(t, "before and after", 2*few)
	if records+gone != all || loss != gone {
		t.Errorf("records tell of %d decisions and %d were lost, which is %d of %d; the last loss says %d", records, gone, records+gone, all, loss)
	}
	if rolled := got.rollups(); rolled != all {
		t.Errorf("roll-ups tell of %d decisions, want %d", rolled, all)
	}
	if gone == 0 {
		t.Error("nothing was lost: nothing was tested")
	}
}

// taken is what came out of a queue. Safe for concurrent use.
type taken struct {
	mu      sync.Mutex
	seen    map[string]bool
	counted struct{ records, rollups, lost, twice int64 }
	stop    func()
}

// take consumes a queue until end.
func take(t *testing.T, b *broker, queue string) *taken {
	t.Helper()
	source := b.consume(t, queue)
	out := &taken{seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- source.Receive(ctx, out.take) }()
	out.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		source.Close()
	})
	t.Cleanup(out.stop)
	return out
}

func (c *taken) take(_ context.Context, batch []event.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		e := &batch[i]
		if c.seen[e.ID()] {
			c.counted.twice++
			continue
		}
		c.seen[e.ID()] = true
		switch {
		case e.Record != nil:
			c.counted.records += e.Record.Count
		case e.Rollup != nil:
			for _, n := range e.Rollup.Counts {
				c.counted.rollups += int64(n)
			}
		case e.Loss != nil:
			c.counted.lost = max(c.counted.lost, int64(e.Loss.Dropped+e.Loss.Discarded))
		}
	}
	return nil
}

func (c *taken) rollups() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counted.rollups
}

// end stops taking and returns how many decisions the records told of, how many the
// last loss says are missing, and how many events came again.
func (c *taken) end() (records, lost, twice int64) {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counted.records, c.counted.lost, c.counted.twice
}
