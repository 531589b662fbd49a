package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
)

const (
	// maxBatch is the most events that are handed over at once.
	maxBatch = 1000
	// heartbeat is how often a source says that it lives; session is how long the
	// group waits for one that does not.
	heartbeat, session = time.Second, 20 * time.Second
	// maxCommit bounds the attempt to say that events were taken, maxLeave that to
	// tell the group of the end.
	maxCommit, maxLeave = 10 * time.Second, time.Second
	// asideEnding ends the topic of messages that are no events.
	asideEnding = ".aside"
	// errorHeader says why a message was put aside.
	errorHeader = "weir-error"
)

// Source is a member of a consumer group. Safe for concurrent use; each call of
// Receive is a member of its own. Make it with Consume.
type Source struct {
	place       *place
	life        broker.Life
	aside, lost atomic.Uint64
}

var _ event.Source = (*Source)(nil)

// Consume returns a source of the queue at a URL.
func Consume(url string, opt Options) (*Source, error) {
	p, err := parse(url, opt)
	if err != nil {
		return nil, err
	}
	p.options = append(p.options,
		kgo.ConsumerGroup(p.group), kgo.ConsumeTopics(p.topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(heartbeat), kgo.SessionTimeout(session))
	return &Source{place: p}, nil
}

// Aside returns how many messages were no events and are in the topic with the ending
// .aside.
func (s *Source) Aside() uint64 { return s.aside.Load() }

// Lost returns how many messages were no events and are left out, since the topic with
// the ending .aside did not take them for ten seconds.
func (s *Source) Lost() uint64 { return s.lost.Load() }

// Receive implements event.Source. Brokers that are away are waited for.
func (s *Source) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	ctx, leave, err := s.life.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	client, lines, err := newClient(s.place)
	if err != nil {
		return fmt.Errorf("queue kafka: %w", err)
	}
	defer func() {
		defer time.AfterFunc(maxLeave, lines.cutAll).Stop()
		// ctx has ended. A group that is not told notices after a while.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxLeave)
		defer cancel()
		if err := client.LeaveGroupContext(last); err != nil {
			s.place.log.Debug("the consumer group was not told of the end", "err", err)
		}
		client.Close()
	}()
	wait := broker.Backoff{Back: func() { s.place.log.Info("events can be fetched again") }}
	for s.next(ctx, client, &wait, take) {
	}
	if s.life.Closed() {
		return event.ErrClosed
	}
	return nil
}

// next hands over what is there. It returns false when ctx has ended.
func (s *Source) next(ctx context.Context, client *kgo.Client, wait *broker.Backoff, take func(context.Context, []event.Event) error) bool {
	fetched := client.PollRecords(ctx, maxBatch)
	if ctx.Err() != nil {
		return false
	}
	records := fetched.Records()
	if len(records) == 0 {
		for _, e := range fetched.Errors() {
			if wait.Tries() == 0 {
				s.place.log.Warn("no events can be fetched; tried again", "topic", e.Topic, "partition", e.Partition, "err", e.Err)
			}
		}
		return fetched.Err() == nil || wait.Sleep(ctx)
	}
	wait.Reset()
	batch := make([]event.Event, 0, len(records))
	var bad []unread
	for _, r := range records {
		e, err := event.Decode(r.Value)
		if err != nil {
			bad = append(bad, unread{r, err})
			continue
		}
		batch = append(batch, e)
	}
	// Invariant: an offset is committed after everything before it was taken.
	if !broker.Take(ctx, s.place.log, batch, take) || !s.putAside(ctx, client, bad) {
		return false
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxCommit)
	defer cancel()
	// No longer than maxLeave after the end.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(maxLeave, cancel) })()
	if err := client.CommitRecords(last, records...); err != nil {
		s.place.log.Warn("events were taken, but the brokers do not know: they may come again", "err", err, "events", len(batch))
	}
	return ctx.Err() == nil
}

// unread is a message that is not an event, and why.
type unread struct {
	record *kgo.Record
	why    error
}

// putAside moves messages to where they hold up nobody. It returns false when ctx has
// ended: they are not committed then, and come again.
func (s *Source) putAside(ctx context.Context, client *kgo.Client, bad []unread) bool {
	put := func(ctx context.Context, u unread) error {
		r := u.record
		err := produce(ctx, client, &kgo.Record{
			Topic: s.place.topic + asideEnding, Key: r.Key, Value: r.Value,
			Headers: append(r.Headers[:len(r.Headers):len(r.Headers)], kgo.RecordHeader{Key: errorHeader, Value: []byte(u.why.Error())}),
		})
		if err == nil {
			s.aside.Add(1)
			s.place.log.Warn("a message that is no event was put aside", "partition", r.Partition, "offset", r.Offset, "why", u.why)
		}
		return err
	}
	answers := func(ctx context.Context) bool { return client.Ping(ctx) == nil }
	var wait broker.Backoff
	for {
		left, away, err := broker.PutAside(ctx, bad, put, answers)
		if !away {
			s.lost.Add(uint64(len(left)))
			for _, u := range left {
				s.place.log.Error("a message that is no event is left out, and could not be put aside",
					"partition", u.record.Partition, "offset", u.record.Offset, "why", u.why, "err", err)
			}
			return true
		}
		if ctx.Err() == nil && wait.Tries() == 0 {
			s.place.log.Warn("the brokers are away; messages that are no events are put aside later", "messages", len(left), "err", err)
		}
		if bad = left; !wait.Sleep(ctx) {
			return false
		}
	}
}

// Close implements event.Source. It ends Receive, which then returns
// event.ErrClosed.
func (s *Source) Close() error {
	s.life.Close()
	return nil
}
