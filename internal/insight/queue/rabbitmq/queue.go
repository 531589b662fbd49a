package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Queue is a queue that events go to. Safe for concurrent use. Make it with Open.
type Queue struct {
	life broker.Life
	// turn holds a token while a batch is under way. publisher is under it.
	turn      chan struct{}
	publisher publisher
	outage    *faults.Outage
}

// Open returns the queue at a URL. It does not connect: Publish does, as often as
// needed.
func Open(url string, log *slog.Logger) (event.Queue, error) {
	p, err := parse(url, log)
	if err != nil {
		return nil, err
	}
	return &Queue{publisher: publisher{endpoint: p}, turn: make(chan struct{}, 1), outage: faults.NewOutage(log, "broker unavailable; events are buffered up to a bound, decisions are not affected",
		"broker recovered", "queue", p.queue)}, nil
}

// Publish implements event.Queue. With a nil error the broker has confirmed the
// batch.
func (q *Queue) Publish(ctx context.Context, batch []event.Event) error {
	return broker.Publish(ctx, &q.life, batch, broker.Pack, q.publish)
}

func (q *Queue) publish(ctx context.Context, packed []broker.Message) (err error) {
	messages := make([]amqp.Publishing, len(packed))
	for i, m := range packed {
		messages[i] = publishing(m, event.ContentTypeBatch)
	}
	select {
	case q.turn <- struct{}{}:
		err = q.send(ctx, messages)
		<-q.turn
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("queue rabbitmq: queue %s has not confirmed: %w", q.publisher.endpoint.queue, err)
	}
	return nil
}

// send hands over messages. While there is no connection it waits for one.
func (q *Queue) send(ctx context.Context, messages []amqp.Publishing) error {
	var wait backoff.Backoff
	for len(messages) > 0 {
		err := q.publisher.publish(ctx, q.publisher.endpoint.queue, messages)
		if err == nil || errors.Is(err, errRefused) {
			q.outage.Succeeded()
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		q.outage.Failed(err)
		if !wait.Sleep(ctx) {
			return fmt.Errorf("%w (%w)", ctx.Err(), err)
		}
	}
	return nil
}

// Close implements event.Queue.
func (q *Queue) Close() error {
	if q.life.Close() {
		q.turn <- struct{}{} // nobody else has a turn any more
		q.publisher.drop()
	}
	return nil
}
