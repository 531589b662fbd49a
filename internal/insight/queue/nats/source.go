package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
)

const (
	// maxMessages is the most messages that are handed over at once; gather is
	// how long the first waits for others.
	maxMessages, gather = 16, 20 * time.Millisecond
	// ackWait is how long the servers wait for a source that is silent, working
	// how often one that works says so.
	ackWait, working = 10 * time.Second, 3 * time.Second
	// maxIdle is how long one question for messages lasts, maxCall bounds others.
	maxIdle, maxCall = 2 * time.Second, 5 * time.Second
	// maxLeave bounds the attempt to give back what was not taken.
	maxLeave = time.Second
)

// Source is one of those who share a durable consumer. Safe for concurrent use.
// Make it with Consume.
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

// Receive implements event.Source. Servers that are away are waited for.
func (s *Source) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	return s.Run(ctx, func(ctx context.Context) error {
		nc, js, err := s.endpoint.connect()
		if err != nil {
			return err
		}
		defer nc.Close()
		broker.Again(ctx, s.endpoint.log.With("stream", s.endpoint.stream), func(wait *backoff.Backoff) error { return s.consume(ctx, js, take, wait) })
		// What was given back last is still to be written.
		if err := nc.FlushTimeout(maxLeave); err != nil {
			s.endpoint.log.Debug("nak failed; messages will be redelivered after the ack wait", "err", err)
		}
		return nil
	})
}

// consume hands over messages until something goes wrong or ctx ends.
func (s *Source) consume(ctx context.Context, js jetstream.JetStream, take func(context.Context, []event.Event) error, wait *backoff.Backoff) error {
	c, err := s.consumer(ctx, js)
	if err != nil {
		return err
	}
	for {
		messages, err := fetch(ctx, c)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			continue
		}
		if err := s.handle(ctx, js, messages, take); err != nil {
			for _, m := range messages {
				if err := m.Nak(); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
					s.endpoint.log.Debug("nak failed; the message will be redelivered after the ack wait", "err", err)
				}
			}
			return err
		}
		wait.Reset()
	}
}

func (s *Source) consumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	if err := s.endpoint.makeStreams(ctx, js); err != nil {
		return nil, err
	}
	c, err := js.Consumer(ctx, s.endpoint.stream, s.endpoint.group)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = js.CreateConsumer(ctx, s.endpoint.stream, jetstream.ConsumerConfig{
			Durable: s.endpoint.group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, FilterSubject: s.endpoint.subject(),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", s.endpoint.group, err)
	}
	return c, nil
}

// fetch returns the messages that are there, none if none comes for a while.
func fetch(ctx context.Context, c jetstream.Consumer) ([]jetstream.Msg, error) {
	idle, cancel := context.WithTimeout(ctx, maxIdle)
	defer cancel()
	first, err := c.Next(jetstream.FetchContext(idle))
	if err != nil {
		if ctx.Err() == nil && (errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoMessages)) {
			return nil, nil
		}
		return nil, err
	}
	messages := []jetstream.Msg{first}
	// An error here is met by the next call, when this message is done with.
	if more, err := c.Fetch(maxMessages-1, jetstream.FetchMaxWait(gather)); err == nil {
		for m := range more.Messages() {
			messages = append(messages, m)
		}
	}
	return messages, nil
}

// handle returns nil when the messages are done with.
func (s *Source) handle(ctx context.Context, js jetstream.JetStream, messages []jetstream.Msg, take func(context.Context, []event.Event) error) error {
	defer s.keep(messages)()
	var batch []event.Event
	var unread []broker.Unread
	for _, m := range messages {
		events, bad := broker.Unpack(header(m, contentTypeHeader), header(m, encodingHeader), m.Data())
		batch, unread = append(batch, events...), append(unread, bad...)
	}
	// Invariant: a message is acknowledged after its events were taken.
	if !broker.Take(ctx, s.endpoint.log, batch, take) {
		return ctx.Err()
	}
	if err := s.moveToDeadLetters(ctx, js, unread); err != nil {
		return err
	}
	for _, m := range messages {
		if err := m.Ack(); err != nil {
			s.endpoint.log.Warn("ack failed; events will be redelivered", "err", err)
		}
	}
	return nil
}

// keep extends the ack deadline of messages until the returned function is called.
func (s *Source) keep(messages []jetstream.Msg) (stop func()) {
	done := make(chan struct{})
	var life sync.WaitGroup
	life.Go(func() {
		tick := time.NewTicker(working)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			for _, m := range messages {
				if err := m.InProgress(); err != nil {
					s.endpoint.log.Debug("in-progress ack failed", "err", err)
					break
				}
			}
		}
	})
	return func() {
		close(done)
		life.Wait()
	}
}

// moveToDeadLetters moves messages that are not events out of the way of others.
func (s *Source) moveToDeadLetters(ctx context.Context, js jetstream.JetStream, unread []broker.Unread) error {
	to := broker.DeadLetterQueue{Kind: "subject", Name: s.endpoint.dlqSubject(), Log: s.endpoint.log,
		Responds: func(ctx context.Context) bool { return js.Conn().FlushWithContext(ctx) == nil }}
	to.Put = func(ctx context.Context, u broker.Unread) error {
		sum := sha256.Sum256(u.Body)
		err := send(ctx, js, to.Name, hex.EncodeToString(sum[:16]), u.ContentType, u.Encoding, clean(u.Err), u.Body)
		if err != nil {
			// The stream may have been deleted: the next attempt has it again.
			return errors.Join(err, s.endpoint.makeStreams(ctx, js))
		}
		return nil
	}
	_, err := s.MoveToDeadLetters(ctx, unread, to)
	return err
}

// clean makes an error fit for a header.
func clean(err error) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error()) }

// header returns a header in whatever case it was written.
func header(m jetstream.Msg, name string) string {
	for k, v := range m.Headers() {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}
