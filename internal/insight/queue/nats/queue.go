package nats

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Queue is a stream that events go to. Safe for concurrent use. Make it with Open.
type Queue struct {
	endpoint *endpoint
	nc       *nats.Conn
	js       jetstream.JetStream
	life     broker.Life
	// turn holds a token while a batch is under way, perhaps longer than Publish
	// waits for it. made, that the streams are known to be there, is under it.
	turn chan struct{}
	made bool
}

// Open returns the queue at a URL. It does not wait for the servers: they may be
// away, and come.
func Open(url string, log *slog.Logger) (event.Queue, error) {
	p, err := parse(url, log)
	if err != nil {
		return nil, err
	}
	nc, js, err := p.connect()
	if err != nil {
		return nil, err
	}
	return &Queue{endpoint: p, nc: nc, js: js, turn: make(chan struct{}, 1)}, nil
}

// Publish implements event.Queue. With a nil error the stream has the batch.
func (q *Queue) Publish(ctx context.Context, batch []event.Event) error {
	return broker.Publish(ctx, &q.life, batch, broker.Pack, q.publish)
}

func (q *Queue) publish(ctx context.Context, messages []broker.Message) (err error) {
	done := make(chan error, 1)
	select {
	case q.turn <- struct{}{}:
		// A write to a server that stands still does not heed ctx.
		go func() {
			done <- q.send(ctx, messages)
			<-q.turn
		}()
	case <-ctx.Done():
		done <- ctx.Err()
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("queue nats: stream %s has not confirmed: %w", q.endpoint.stream, err)
	}
	return nil
}

// send hands over messages. While the connection is lost it waits for it.
func (q *Queue) send(ctx context.Context, messages []broker.Message) error {
	var wait backoff.Backoff
	for len(messages) > 0 {
		err := q.sendOne(ctx, messages[0])
		if err == nil {
			messages = messages[1:]
			wait.Reset()
			continue
		}
		q.made = false
		if ctx.Err() != nil || !passing(err) {
			return err
		}
		if !wait.Sleep(ctx) {
			return fmt.Errorf("%w (%w)", ctx.Err(), err)
		}
	}
	return nil
}

func (q *Queue) sendOne(ctx context.Context, m broker.Message) error {
	if !q.made {
		if err := q.endpoint.makeStreams(ctx, q.js); err != nil {
			return err
		}
		q.made = true
	}
	return send(ctx, q.js, q.endpoint.subject(), m.ID, event.ContentTypeBatch, m.Encoding, "", m.Body)
}

// send publishes one message and waits for the stream to confirm it.
func send(ctx context.Context, js jetstream.JetStream, subject, id, contentType, encoding, why string, body []byte) error {
	m := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{contentTypeHeader: {contentType}}}
	if encoding != "" {
		m.Header[encodingHeader] = []string{encoding}
	}
	if why != "" {
		m.Header.Set(broker.ErrorHeader, why)
	}
	_, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
	return err
}

// Close implements event.Queue.
func (q *Queue) Close() error {
	if q.life.Close() {
		q.nc.Close()
		q.turn <- struct{}{} // what was under way has ended
	}
	return nil
}
