package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlimit/weir/internal/backoff"
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
	// dlqSuffix ends the name of the dead-letter topic, for messages that are not events.
	dlqSuffix = ".dlq"
	// errorHeader has the reason of a dead letter.
	errorHeader = "weir-error"
)

// Source is a member of a consumer group. Safe for concurrent use; each call of
// Receive is a member of its own. Make it with Consume.
type Source struct {
	endpoint             *endpoint
	life                 broker.Life
	deadLetters, dropped atomic.Uint64
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
	return &Source{endpoint: p}, nil
}

// DeadLetters returns how many messages were not events and moved to the dead-letter
// topic.
func (s *Source) DeadLetters() uint64 { return s.deadLetters.Load() }

// Dropped returns how many messages were not events and dropped because the dead-letter
// topic refused them for ten seconds.
func (s *Source) Dropped() uint64 { return s.dropped.Load() }

// Receive implements event.Source. Brokers that are away are waited for.
func (s *Source) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	ctx, leave, err := s.life.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	client, lines, err := newClient(s.endpoint)
	if err != nil {
		return fmt.Errorf("queue kafka: %w", err)
	}
	defer func() {
		defer time.AfterFunc(maxLeave, lines.cutAll).Stop()
		// ctx has ended. A group that is not told notices after a while.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxLeave)
		defer cancel()
		if err := client.LeaveGroupContext(last); err != nil {
			s.endpoint.log.Debug("leaving the consumer group failed", "err", err)
		}
		client.Close()
	}()
	wait := backoff.Backoff{Back: func() { s.endpoint.log.Info("event fetch recovered") }}
	for s.next(ctx, client, &wait, take) {
	}
	if s.life.Closed() {
		return event.ErrClosed
	}
	return nil
}

// next hands over what is there. It returns false when ctx has ended.
func (s *Source) next(ctx context.Context, client *kgo.Client, wait *backoff.Backoff, take func(context.Context, []event.Event) error) bool {
	fetched := client.PollRecords(ctx, maxBatch)
	if ctx.Err() != nil {
		return false
	}
	records := fetched.Records()
	if len(records) == 0 {
		for _, e := range fetched.Errors() {
			if wait.Tries() == 0 {
				s.endpoint.log.Warn("event fetch failed; will retry", "topic", e.Topic, "partition", e.Partition, "err", e.Err)
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
	if !broker.Take(ctx, s.endpoint.log, batch, take) || !s.moveToDeadLetters(ctx, client, bad) {
		return false
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxCommit)
	defer cancel()
	// No longer than maxLeave after the end.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(maxLeave, cancel) })()
	if err := client.CommitRecords(last, records...); err != nil {
		s.endpoint.log.Warn("offset commit failed; events may be redelivered", "err", err, "events", len(batch))
	}
	return ctx.Err() == nil
}

// unread is a message that is not an event, and why.
type unread struct {
	record *kgo.Record
	why    error
}

// moveToDeadLetters moves messages out of the way of others. It returns false when ctx has
// ended: they are not committed then, and are redelivered.
func (s *Source) moveToDeadLetters(ctx context.Context, client *kgo.Client, bad []unread) bool {
	put := func(ctx context.Context, u unread) error {
		r := u.record
		err := produce(ctx, client, &kgo.Record{
			Topic: s.endpoint.topic + dlqSuffix, Key: r.Key, Value: r.Value,
			Headers: append(r.Headers[:len(r.Headers):len(r.Headers)], kgo.RecordHeader{Key: errorHeader, Value: []byte(u.why.Error())}),
		})
		if err == nil {
			s.deadLetters.Add(1)
			s.endpoint.log.Warn("invalid message moved to the dead-letter topic", "topic", s.endpoint.topic+dlqSuffix, "partition", r.Partition, "offset", r.Offset, "err", u.why)
		}
		return err
	}
	responds := func(ctx context.Context) bool { return client.Ping(ctx) == nil }
	var wait backoff.Backoff
	for {
		left, down, err := broker.MoveToDeadLetters(ctx, bad, put, responds)
		if !down {
			s.dropped.Add(uint64(len(left)))
			for _, u := range left {
				s.endpoint.log.Error("invalid message dropped; the dead-letter topic refused it",
					"partition", u.record.Partition, "offset", u.record.Offset, "reason", u.why, "err", err)
			}
			return true
		}
		if ctx.Err() == nil && wait.Tries() == 0 {
			s.endpoint.log.Warn("brokers unreachable; moving of dead letters will be retried", "messages", len(left), "err", err)
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
