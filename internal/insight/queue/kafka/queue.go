package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
)

// contentType is that of a message.
const contentType = event.ContentType + "; charset=UTF-8"

// Queue is a topic that events go to. Safe for concurrent use. Make it with Open.
type Queue struct {
	endpoint *endpoint
	client   *kgo.Client
	cut      context.CancelFunc // cuts the client's connections
	life     broker.Life
}

// Open returns the queue at a URL. It does not wait for the brokers: they may be
// away, and come. The error says what is wrong with the URL.
func Open(url string, log *slog.Logger) (event.Queue, error) {
	p, err := parse(url, log)
	if err != nil {
		return nil, err
	}
	client, cut, err := newClient(p)
	if err != nil {
		return nil, fmt.Errorf("queue kafka: %w", err)
	}
	return &Queue{endpoint: p, client: client, cut: cut}, nil
}

// Publish implements event.Queue. With a nil error all in-sync replicas have
// the batch.
func (q *Queue) Publish(ctx context.Context, batch []event.Event) error {
	return broker.Publish(ctx, &q.life, batch, q.pack, func(ctx context.Context, records []*kgo.Record) error {
		if err := q.send(ctx, records); err != nil {
			return fmt.Errorf("queue kafka: topic %s: %w", q.endpoint.topic, err)
		}
		return nil
	})
}

// pack returns events as records, without their own times: the client gives up by a
// record's timestamp, and an event that has waited for the brokers would be too old at once.
func (q *Queue) pack(batch []event.Event) (records []*kgo.Record, err error) {
	err = broker.Encode(batch, func(e *event.Event, encoded []byte) {
		records = append(records, &kgo.Record{
			Topic: q.endpoint.topic, Key: []byte(e.PartitionKey()), Value: encoded,
			Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(contentType)}},
		})
	})
	return records, err
}

// send hands over records until they are confirmed, or until it makes no sense.
func (q *Queue) send(ctx context.Context, records []*kgo.Record) error {
	var wait backoff.Backoff
	for {
		err := produce(ctx, q.client, records...)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, kerr.UnknownTopicID) {
			// The topic was made anew. The client knows the old one until told.
			q.client.PurgeTopicsFromProducing(q.endpoint.topic)
		} else if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return err
		}
		// A call that was given up takes with it what lies behind its records in
		// their partitions.
		again := make([]*kgo.Record, len(records))
		for i, r := range records {
			again[i] = &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
		}
		records = again
		if !wait.Sleep(ctx) {
			return fmt.Errorf("not confirmed: %w (%w)", ctx.Err(), err)
		}
	}
}

// produce returns when all records are confirmed, when one cannot be, or when ctx
// ends: the client alone would go on for as long as a request is under way.
func produce(ctx context.Context, client *kgo.Client, records ...*kgo.Record) error {
	results := make(chan error, len(records))
	for _, r := range records {
		client.Produce(ctx, r, func(_ *kgo.Record, err error) { results <- err })
	}
	for range records {
		select {
		case err := <-results:
			if ctx.Err() != nil && err != nil {
				return fmt.Errorf("not confirmed: %w (%w)", ctx.Err(), err)
			}
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("not confirmed: %w", ctx.Err())
		}
	}
	return nil
}

// Close implements event.Queue.
func (q *Queue) Close() error {
	if q.life.Close() {
		defer time.AfterFunc(maxLeave, q.cut).Stop()
		q.client.Close()
	}
	return nil
}
