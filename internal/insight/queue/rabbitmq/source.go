package rabbitmq

import (
	"context"
	"fmt"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
)

// maxMessages is the most messages that are handed over at once, and that a source has
// without having acknowledged them.
const maxMessages = 16

// Source is one of those who share a queue. Safe for concurrent use. Make it with
// Consume.
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
	return &Source{endpoint: p}, nil
}

// Receive implements event.Source. A broker that is away is waited for.
func (s *Source) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	return s.Run(ctx, func(ctx context.Context) error {
		broker.Again(ctx, s.endpoint.log.With("queue", s.endpoint.queue), func(wait *backoff.Backoff) error { return s.consume(ctx, take, wait) })
		return nil
	})
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
	if !broker.Take(ctx, s.endpoint.log, batch, take) {
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
	own := publisher{endpoint: s.endpoint}
	defer own.drop()
	to := broker.DeadLetterQueue{Kind: "queue", Name: s.endpoint.queue + broker.DeadLetterSuffix, Log: s.endpoint.log, Responds: consumer.answers}
	to.Put = func(ctx context.Context, u broker.Unread) error {
		m := publishing(broker.Message{Encoding: u.Encoding, Body: u.Body}, u.ContentType)
		m.Headers = amqp.Table{broker.ErrorHeader: u.Err.Error()}
		return own.publish(ctx, to.Name, []amqp.Publishing{m})
	}
	_, err := s.MoveToDeadLetters(ctx, unread, to)
	return err
}
