package kafka

import (
	"context"
	"fmt"
	"log/slog"
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
)

// Source is a member of a consumer group. Safe for concurrent use; each call of
// Receive is a member of its own. Make it with Consume.
type Source struct {
	broker.Source
	endpoint *endpoint
}

// Consume returns a source of the queue at a URL. The error says what is wrong with the URL.
func Consume(url string, log *slog.Logger) (event.Source, error) {
	p, err := parse(url, log)
	if err != nil {
		return nil, err
	}
	p.options = append(p.options,
		kgo.ConsumerGroup(p.group), kgo.ConsumeTopics(p.topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(heartbeat), kgo.SessionTimeout(session))
	return &Source{endpoint: p}, nil
}

// Receive implements event.Source. Brokers that are away are waited for.
func (s *Source) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	return s.Run(ctx, func(ctx context.Context) error {
		client, cut, err := newClient(s.endpoint)
		if err != nil {
			return fmt.Errorf("queue kafka: %w", err)
		}
		defer s.leave(ctx, client, cut)
		wait := backoff.Backoff{Back: func() { s.endpoint.log.Info("event fetch recovered") }}
		for s.next(ctx, client, &wait, take) {
		}
		return nil
	})
}

// leave ends a client, whose ctx has ended. A group that is not told notices after a while.
func (s *Source) leave(ctx context.Context, client *kgo.Client, cut func()) {
	defer time.AfterFunc(maxLeave, cut).Stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxLeave)
	defer cancel()
	if err := client.LeaveGroupContext(last); err != nil {
		s.endpoint.log.Debug("leaving the consumer group failed", "err", err)
	}
	client.Close()
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
	var bad []broker.Unread
	for _, r := range records {
		e, err := event.Decode(r.Value)
		if err != nil {
			bad = append(bad, broker.Unread{Err: err, At: []any{"partition", r.Partition, "offset", r.Offset}, Origin: r})
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

// moveToDeadLetters moves messages out of the way of others. It returns false when ctx has
// ended: they are not committed then, and are redelivered.
func (s *Source) moveToDeadLetters(ctx context.Context, client *kgo.Client, bad []broker.Unread) bool {
	to := broker.DeadLetterQueue{Kind: "topic", Name: s.endpoint.topic + broker.DeadLetterSuffix, Log: s.endpoint.log,
		Responds: func(ctx context.Context) bool { return client.Ping(ctx) == nil }}
	to.Put = func(ctx context.Context, u broker.Unread) error {
		r := u.Origin.(*kgo.Record)
		return produce(ctx, client, &kgo.Record{
			Topic: to.Name, Key: r.Key, Value: r.Value,
			Headers: append(r.Headers[:len(r.Headers):len(r.Headers)], kgo.RecordHeader{Key: broker.ErrorHeader, Value: []byte(u.Err.Error())}),
		})
	}
	var wait backoff.Backoff
	for {
		left, err := s.MoveToDeadLetters(ctx, bad, to)
		if err == nil {
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
