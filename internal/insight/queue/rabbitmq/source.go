package rabbitmq

import (
	"context"
	"fmt"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
)

const (
	// maxMessages is the most messages that are handed over at once, and that a
	// source has without having acknowledged them.
	maxMessages = 16
	// errorHeader has the reason of a dead letter.
	errorHeader = "weir-error"
)

// Source is one of those who share a queue. Safe for concurrent use. Make it with
// Consume.
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
	return &Source{endpoint: p}, nil
}

// DeadLetters returns how many messages, or parts of them, were not events and moved to the
// dead-letter queue .dlq.
func (s *Source) DeadLetters() uint64 { return s.deadLetters.Load() }

// Dropped returns how many messages, or parts of them, were not events and dropped
// because the dead-letter queue refused them for ten seconds.
func (s *Source) Dropped() uint64 { return s.dropped.Load() }

// Receive implements event.Source. A broker that is away is waited for.
func (s *Source) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	ctx, leave, err := s.life.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	broker.Again(ctx, func(wait *backoff.Backoff) error { return s.consume(ctx, take, wait) }, func(err error) {
		s.endpoint.Log.Warn("event fetch failed; will retry", "queue", s.endpoint.queue, "err", err)
	}, func() { s.endpoint.Log.Info("event fetch recovered", "queue", s.endpoint.queue) })
	if s.life.Closed() {
		return event.ErrClosed
	}
	return nil
}

// consume hands over messages until the session or ctx ends. What is not
// acknowledged then goes back to the queue.
func (s *Source) consume(ctx context.Context, take func(context.Context, []event.Event) error, wait *backoff.Backoff) error {
	session, err := s.endpoint.connect(ctx)
	if err != nil {
		return err
	}
	defer session.close()
	if err := session.ch.Qos(maxMessages, 0, false); err != nil {
		return err
	}
	each, err := session.ch.Consume(s.endpoint.queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	deliveries := gather(each)
	for {
		messages, open := fetch(ctx, deliveries)
		if !open {
			return session.why()
		}
		if len(messages) == 0 {
			return ctx.Err()
		}
		if err := s.handle(ctx, session, messages, take); err != nil {
			return err
		}
		wait.Reset()
	}
}

// gather makes room for all messages that the broker sends before some are acknowledged.
// The library hands over one at a time, and fetch would meet none beside the first.
func gather(each <-chan amqp.Delivery) <-chan amqp.Delivery {
	all := make(chan amqp.Delivery, maxMessages)
	go func() { // until the session ends
		defer close(all)
		for d := range each {
			all <- d
		}
	}()
	return all
}

// fetch waits for a message and returns it with those that are there, none when
// ctx has ended. It reports whether there can be more.
func fetch(ctx context.Context, deliveries <-chan amqp.Delivery) (messages []amqp.Delivery, open bool) {
	select {
	case d, ok := <-deliveries:
		if !ok {
			return nil, false
		}
		messages = append(messages, d)
	case <-ctx.Done():
		return nil, true
	}
	for len(messages) < maxMessages {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return nil, false // the broker has them back
			}
			messages = append(messages, d)
		default:
			return messages, true
		}
	}
	return messages, true
}

// handle returns nil when the messages are done with.
func (s *Source) handle(ctx context.Context, session *session, messages []amqp.Delivery, take func(context.Context, []event.Event) error) error {
	var batch []event.Event
	var unread []broker.Unread
	for i := range messages {
		m := &messages[i]
		events, bad := broker.Unpack(m.ContentType, m.ContentEncoding, m.Body)
		batch, unread = append(batch, events...), append(unread, bad...)
	}
	// Invariant: a message is acknowledged after its events were taken.
	if !broker.Take(ctx, s.endpoint.Log, batch, take) {
		return ctx.Err()
	}
	if err := s.moveToDeadLetters(ctx, session, unread); err != nil {
		return err
	}
	// This one and all before it.
	if err := messages[len(messages)-1].Ack(true); err != nil {
		return fmt.Errorf("ack failed, events will be redelivered: %w", err)
	}
	return nil
}

// moveToDeadLetters moves messages that are not events out of the way of others. It uses a
// session of its own: one whose message is not confirmed ends, and one that publishes may be
// blocked, while the consumer's must still acknowledge.
func (s *Source) moveToDeadLetters(ctx context.Context, consumer *session, unread []broker.Unread) error {
	var own *session
	leave := func() {
		if own != nil {
			own.close()
			own = nil
		}
	}
	defer leave()
	put := func(ctx context.Context, u broker.Unread) (err error) {
		if own == nil {
			if own, err = s.endpoint.connect(ctx); err != nil {
				return err
			}
		}
		m := publishing(broker.Message{Encoding: u.Encoding, Body: u.Body}, u.ContentType)
		m.Headers = amqp.Table{errorHeader: u.Err.Error()}
		if err := own.publish(ctx, s.endpoint.queue+dlqSuffix, []amqp.Publishing{m}); err != nil {
			leave() // the next session makes the queue if it is gone
			return err
		}
		s.deadLetters.Add(1)
		s.endpoint.Log.Warn("invalid message moved to the dead-letter queue", "queue", s.endpoint.queue+dlqSuffix, "err", u.Err)
		return nil
	}
	left, down, err := broker.MoveToDeadLetters(ctx, unread, put, consumer.answers)
	if down {
		return fmt.Errorf("cannot move an invalid message to the dead-letter queue: %w", err)
	}
	s.dropped.Add(uint64(len(left)))
	for _, u := range left {
		s.endpoint.Log.Error("invalid message dropped; the dead-letter queue refused it",
			"queue", s.endpoint.queue+dlqSuffix, "reason", u.Err, "err", err)
	}
	return nil
}

// Close implements event.Source. It ends Receive, which then returns
// event.ErrClosed.
func (s *Source) Close() error {
	s.life.Close()
	return nil
}
