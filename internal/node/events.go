package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
)

const (
	// rollupHere is how often counts are told within the process, where no network
	// carries them: who has just started sees at once what happens.
	rollupHere = 10 * time.Second
	// localBatches is how many batches, of 1000 events at most, wait to be kept by this
	// process; further ones wait in the backlog.
	localBatches = 16
	// maxLiveReaders bounds who watches at once; they share the connections of the
	// admin listener with others.
	maxLiveReaders = 16
)

// queue is how a queue is opened that events go through.
type queue struct {
	open    func(url string, log *slog.Logger) (event.Queue, error)
	consume func(url string, log *slog.Logger) (event.Source, error)
}

// eventPipeline is how a node tells of its decisions.
type eventPipeline struct {
	observer *event.Observer
	// queue is where events go, which is broadcast when nobody but readers of the live
	// stream hears of them.
	queue event.Queue
	// local is the queue where events are kept by this process, nil else.
	local     *event.Local
	broadcast *event.Broadcast
	meter     *live.Meter
	log       *slog.Logger

	running sync.WaitGroup
	stop    context.CancelFunc // nil until run
	ended   sync.Once
}

// openEvents makes what tells of decisions, unless nobody would hear of them. alarms are those
// of the state of the node.
func (s *Server) openEvents(alarms func() []string) error {
	c := &s.conf.Events
	keeps := s.conf.KeepsEvents()
	if c.URL == config.Off || c.IsLocal() && s.conf.Admin.Listen == "" && !keeps {
		return nil
	}
	secret, err := c.ReadSecret()
	if err != nil {
		return err
	}
	t := &eventPipeline{broadcast: event.NewBroadcast(maxLiveReaders), log: s.log}
	opt := event.Options{
		Queue: t.broadcast, Limits: s.eventRefs, Node: c.NodeName(), Region: config.EventRegion(s.conf), Secret: secret, Unhashed: c.Unhashed,
		Sample: c.Sample, MaxBacklog: int(c.Backlog), Log: s.log,
	}
	if c.Sample == 0 {
		opt.Sample = -1
	}
	switch {
	case c.IsLocal() && keeps:
		t.local = event.NewLocal(localBatches)
		t.queue = t.local
		opt.Queue, opt.Live = t.queue, t.broadcast
		opt.RollupEvery = rollupHere
		if len(secret) == 0 && !c.Unhashed && s.conf.Analytics.URL != config.AnalyticsMemory {
			s.log.Warn("keys are hashed with a secret of this process: after a restart every client has another hash, without history and bans by hash; set events.secret_file (WEIR_EVENTS_SECRET_FILE)")
		}
	case !c.IsLocal():
		kind, err := config.FindQueueKind("--events", c.URL)
		if err != nil {
			return err
		}
		if t.queue, err = queues[kind].open(c.URL, s.log); err != nil {
			return fmt.Errorf("--events: %w", err)
		}
		if len(secret) == 0 && !c.Unhashed {
			s.log.Warn("keys in events are hashed with a secret of this process: other nodes, and this one after a restart, have other hashes for the same client; set the same events.secret_file (WEIR_EVENTS_SECRET_FILE)")
		}
		opt.Queue, opt.Live = t.queue, t.broadcast
	}
	if t.observer, err = event.New(opt); err != nil {
		return errors.Join(err, t.close())
	}
	s.events, s.closers = t, append(s.closers, t.close)
	source := live.Source{Node: opt.Node, Region: opt.Region, Started: time.Now(), Limits: s.eventRefs, Observer: t.observer}
	source.Alarms = alarms
	if s.store.shared != nil {
		source.IsStoreUp = func() bool {
			shared := s.store.shared()
			return shared.Reached && shared.Up
		}
	}
	t.meter = live.NewMeter(source)
	return nil
}

// eventRefs lists every limit that decides something with its words.
func (s *Server) eventRefs() []limits.Ref {
	all := s.refs()
	if s.resp != nil {
		all = append(all, respMetrics(s.resp).Limits...)
	}
	return all
}

// metrics returns the state of the event pipeline.
func (t *eventPipeline) metrics() metrics.Events {
	s, requests := t.observer.Stats(), t.observer.Requests()
	return metrics.Events{
		Allowed: requests[event.RequestAllowed], Refused: requests[event.RequestRefused], Undecided: requests[event.RequestFailed],
		Dropped: s.Loss.Dropped, Discarded: s.Loss.Discarded, Rollups: s.Loss.Rollups,
		Published: s.Published, Failures: s.Failures, Rejected: s.Rejected,
		Backlog: s.Backlog, MaxBacklog: s.MaxBacklog, Up: !s.Down,
		Readers: t.broadcast.Subscribers(), LiveDropped: t.broadcast.Dropped(),
	}
}

// liveHandler serves the live stream; t is nil where events are off.
func liveHandler(t *eventPipeline) http.Handler {
	if t == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answer.Problem{Status: http.StatusNotFound, Code: "DISABLED", Detail: "events are off: start without --events off"}.Write(w)
		})
	}
	return live.Handler(live.Options{Broadcast: t.broadcast, Meter: t.meter})
}

// EventQueue returns the queue that events of decisions of s go to, nil where there is
// none. Events of earlier decisions can be published there. The server closes it.
func EventQueue(s *Server) event.Queue {
	if s.events == nil {
		return nil
	}
	return s.events.queue
}

// startPublishing begins to tell.
func (t *eventPipeline) startPublishing() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.running.Go(func() {
		if err := t.observer.Run(ctx); err != nil {
			l := t.observer.Loss()
			t.log.Error("events lost at shutdown", "err", err, "dropped", l.Dropped, "discarded", l.Discarded, "rollups", l.Rollups)
		}
	})
}

// endPublishing hands over what is left to tell, for some seconds at most, and ends those who
// listen. No decision is heard any more.
func (t *eventPipeline) endPublishing() {
	t.ended.Do(func() {
		if t.stop != nil {
			t.stop()
			t.running.Wait()
		}
		_ = t.broadcast.Close() // it has no errors
	})
}

// close ends everything.
func (t *eventPipeline) close() error {
	t.endPublishing()
	if t.queue != nil {
		return t.queue.Close()
	}
	return nil
}
