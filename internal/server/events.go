package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
)

// Events configures what is told of decisions, and to whom.
type Events struct {
	URL        string `yaml:"url" name:"events" default:"local:" placeholder:"URL" help:"Queue that events of decisions go to. kafka://HOST:PORT/TOPIC or amqp://HOST:PORT/VHOST?queue=QUEUE (kafkas, amqps for TLS), see docs/reference/events.md. local: keeps them in this process, for its live stream; off makes none. No decision waits for a queue; one that is down is retried."`
	Sample     int64  `yaml:"sample" name:"events-sample" more:"" default:"1000" placeholder:"N" least:"0" help:"Allowed decisions are recorded of one key in N. Refused ones are recorded of all keys. 1 records every key, 0 none."`
	Unhashed   bool   `yaml:"unhashed" name:"events-unhashed" more:"" was:"events-plain" default:"false" help:"Record keys and addresses unhashed. Without it they are keyed hashes."`
	SecretFile string `yaml:"secret_file" name:"events-secret-file" kong:"-" placeholder:"FILE" help:"File whose content keys the hashes of keys. At least 16 bytes; the same on all nodes, so that a client has one hash on all of them. Empty means a random secret, which a restart changes."`
	Node       string `yaml:"node" name:"events-node" kong:"-" placeholder:"NAME" help:"Name of this node in events and in its live stream. Empty means the name of the machine."`
	Region     string `yaml:"region" name:"events-region" kong:"-" placeholder:"NAME" help:"Region of this node in events. Analytics and the dashboard group nodes by it; nothing is decided by it. Empty means that of --region, or none."`
	Backlog    int64  `yaml:"backlog" kong:"-" was:"events-backlog" default:"200000" placeholder:"N" least:"1000" most:"10000000" help:"Most events that wait for the queue; then records are dropped, the oldest first, and counted. One takes about 1 KiB."`
}

const (
	eventsOff   = "off"
	eventsLocal = "local"
	// maxNode bounds the name of a node, in bytes.
	maxNode = 200
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

// queueKind is a queue that events can go through.
type queueKind struct {
	open    func(url string, log *slog.Logger) (event.Queue, error)
	consume func(url string, log *slog.Logger) (event.Source, error)
}

// queueOf returns the queue that a URL names.
func queueOf(flag, url string) (queueKind, error) {
	return kindOf(flag, "amqp://127.0.0.1:5672, or local: or off", url, queues, eventsLocal)
}

// here reports whether events stay in this process.
func (e *Events) here() bool { return e.URL == eventsLocal+":" }

// check reports what is wrong with e that can be seen without opening anything.
func (e *Events) check() error {
	var errs []error
	if e.URL != eventsOff && !e.here() {
		if scheme, rest, _ := strings.Cut(e.URL, ":"); scheme == eventsLocal {
			errs = append(errs, fmt.Errorf("--events (events.url): %s: takes nothing: leave %q out", eventsLocal, rest))
		} else if _, err := queueOf("--events (events.url)", e.URL); err != nil {
			errs = append(errs, err)
		}
	}
	if len(e.Node) > maxNode || strings.ContainsFunc(e.Node, isNoNode) {
		errs = append(errs, fmt.Errorf("events.node %q: at most %d letters, digits and signs other than spaces and slashes", e.Node, maxNode))
	}
	if e.Region != "" && !regionName.MatchString(e.Region) {
		errs = append(errs, fmt.Errorf("events.region %q is not a name of letters, digits, dots and dashes", e.Region))
	}
	return errors.Join(errs...)
}

// eventRegion returns the region of this node in events.
func eventRegion(c *Config) string { return cmp.Or(c.Events.Region, c.Region) }

// node returns the name of this node.
func (e *Events) node() string {
	name := strings.Map(func(r rune) rune {
		if isNoNode(r) {
			return '-'
		}
		return r
	}, cmp.Or(e.Node, nodeName(), "node"))
	return name[:min(len(name), maxNode)]
}

// isNoNode reports whether the name of a node cannot have r.
func isNoNode(r rune) bool { return r <= ' ' || r > '~' || r == '/' }

// nodeName is the name of the machine, empty where it has none.
func nodeName() string {
	name, _ := os.Hostname() // empty with an error
	return name
}

// secret returns what hashes of keys are keyed with, nothing for a random one.
func (e *Events) secret() ([]byte, error) {
	secret, err := readSecret("events.secret_file", e.SecretFile)
	if e.SecretFile != "" && err == nil && len(secret) < minSecret {
		return nil, fmt.Errorf("events.secret_file: %s has %d bytes: give at least 16, such as by `openssl rand -hex 32`", e.SecretFile, len(secret))
	}
	return secret, err
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
	keeps := s.conf.keeps()
	if c.URL == eventsOff || c.here() && s.conf.Admin.Listen == "" && !keeps {
		return nil
	}
	secret, err := c.secret()
	if err != nil {
		return err
	}
	t := &eventPipeline{broadcast: event.NewBroadcast(maxLiveReaders), log: s.log}
	opt := event.Options{
		Queue: t.broadcast, Limits: s.eventRefs, Node: c.node(), Region: eventRegion(s.conf), Secret: secret, Unhashed: c.Unhashed,
		Sample: c.Sample, MaxBacklog: int(c.Backlog), Log: s.log,
	}
	if c.Sample == 0 {
		opt.Sample = -1
	}
	switch {
	case c.here() && keeps:
		t.local = event.NewLocal(localBatches)
		t.queue = t.local
		opt.Queue, opt.Live = t.queue, t.broadcast
		opt.RollupEvery = rollupHere
		if len(secret) == 0 && !c.Unhashed && s.conf.Analytics.URL != analyticsMemory {
			s.log.Warn("keys are hashed with a secret of this process: after a restart every client has another hash, without history and bans by hash; set events.secret_file (WEIR_EVENTS_SECRET_FILE)")
		}
	case !c.here():
		kind, err := queueOf("--events", c.URL)
		if err != nil {
			return err
		}
		if t.queue, err = kind.open(c.URL, s.log); err != nil {
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
			http.Error(w, "events are off: start without --events off", http.StatusNotFound)
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

// run begins to tell.
func (t *eventPipeline) run() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.running.Go(func() {
		if err := t.observer.Run(ctx); err != nil {
			l := t.observer.Loss()
			t.log.Error("events lost at shutdown", "err", err, "dropped", l.Dropped, "discarded", l.Discarded, "rollups", l.Rollups)
		}
	})
}

// end hands over what is left to tell, for some seconds at most, and ends those who
// listen. No decision is heard any more.
func (t *eventPipeline) end() {
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
	t.end()
	if t.queue != nil {
		return t.queue.Close()
	}
	return nil
}

// keeps reports whether this process keeps what events tell. In memory it keeps its
// own alone, and only where somebody can ask.
func (c *Config) keeps() bool {
	if c.Analytics.URL == eventsOff || c.Events.URL == eventsOff {
		return false
	}
	return c.Analytics.URL != analyticsMemory || c.Events.here() && c.Admin.Listen != ""
}
