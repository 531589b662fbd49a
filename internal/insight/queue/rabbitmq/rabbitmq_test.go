package rabbitmq

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/queuetest"
	"github.com/weirlimit/weir/internal/testing/queuetest/brokers"
)

func TestRabbitMQ(t *testing.T) {
	p := brokers.RabbitMQ(t)
	t.Run("Message", func(t *testing.T) { testMessage(t, p.Addr) })
	t.Run("QueueGone", func(t *testing.T) { testQueueGone(t, p.Addr) })
	t.Run("WrongPassword", func(t *testing.T) { testWrongPassword(t, p.Addr) })
	n := 0
	queuetest.Run(t, func(testing.TB) *queuetest.Broker {
		n++
		b := on(p.Addr, fmt.Sprintf("weir-%d", n))
		b.Kill, b.Restart, b.Stall = p.Kill, p.Restart, p.Stall
		return b
	})
}

func on(addr, queue string) *queuetest.Broker {
	url := "amqp://guest:guest@" + addr + "?queue=" + queue
	return &queuetest.Broker{
		Open: func(t testing.TB) event.Queue { return open(t, url) },
		Consume: func(t testing.TB) queuetest.Source {
			s, err := Consume(url, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return s.(queuetest.Source)
		},
		Send: func(t testing.TB, contentType string, body []byte) {
			c, ch := channel(t, addr)
			defer c.Close()
			if err := ch.Confirm(false); err != nil {
				t.Fatal(err)
			}
			d, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{ContentType: contentType, Body: body})
			if err != nil || !d.Wait() {
				t.Fatal("not sent", err)
			}
		},
		DeadLetters: func(t testing.TB, n int) (out [][]byte) {
			for range n {
				out = append(out, get(t, addr, queue+broker.DeadLetterSuffix).Body)
			}
			return out
		},
		Refuse: func(t testing.TB) {
			c, ch := channel(t, addr)
			defer c.Close()
			full := amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"}
			if _, err := ch.QueueDeclare(queue+broker.DeadLetterSuffix, true, false, false, false, full); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func open(t testing.TB, url string) event.Queue {
	t.Helper()
	q, err := Open(url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func channel(t testing.TB, addr string) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	c, err := amqp.Dial("amqp://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return c, ch
}

// get takes one message out of a queue.
func get(t testing.TB, addr, queue string) amqp.Delivery {
	t.Helper()
	c, ch := channel(t, addr)
	defer c.Close()
	d, ok, err := ch.Get(queue, true)
	if err != nil || !ok {
		t.Fatalf("queue %s: %v, %v", queue, ok, err)
	}
	return d
}

func one(sequence uint64) []event.Event {
	return []event.Event{{Source: "n/1", Sequence: sequence, Time: time.Unix(1_700_000_000, 0).UTC(), Loss: &event.Loss{Dropped: 1}}}
}

// A message is a list of CloudEvents, compressed, persistent, and of a queue that
// exists nothing is changed.
func testMessage(t *testing.T, addr string) {
	c, ch := channel(t, addr)
	defer c.Close()
	if _, err := ch.QueueDeclare("message", true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
		t.Fatal(err)
	}
	q := open(t, "amqp://guest:guest@"+addr+"/%2F?queue=message")
	defer q.Close()
	if err := q.Publish(t.Context(), one(7)); err != nil {
		t.Fatal(err)
	}
	m := get(t, addr, "message")
	if m.ContentType != "application/cloudevents-batch+json" || m.ContentEncoding != "gzip" || m.DeliveryMode != amqp.Persistent || m.MessageId == "" {
		t.Errorf("got %+v", m)
	}
	z, err := gzip.NewReader(bytes.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.NewDecoder(z).Decode(&list); err != nil || len(list) != 1 || list[0]["specversion"] != "1.0" || list[0]["id"] != "7" {
		t.Errorf("%v: %v", list, err)
	}
}

// A broker confirms what goes to a queue that was deleted. Publish does not take
// that for an answer, and the next call makes the queue anew.
func testQueueGone(t *testing.T, addr string) {
	q := open(t, "amqp://"+addr+"?queue=gone")
	defer q.Close()
	if err := q.Publish(t.Context(), one(1)); err != nil {
		t.Fatal(err)
	}
	c, ch := channel(t, addr)
	defer c.Close()
	if _, err := ch.QueueDelete("gone", false, false, false); err != nil {
		t.Fatal(err)
	}
	if err := q.Publish(t.Context(), one(2)); err == nil || !strings.Contains(err.Error(), "NO_ROUTE") {
		t.Errorf("got %v", err)
	}
	if err := q.Publish(t.Context(), one(2)); err != nil {
		t.Error(err)
	}
	get(t, addr, "gone")
}

func testWrongPassword(t *testing.T, addr string) {
	q := open(t, "amqp://guest:other@"+addr)
	defer q.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := q.Publish(ctx, one(1)); err == nil || strings.Contains(err.Error(), "other") {
		t.Errorf("got %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"kafka://h/s":                                "must begin with amqp:// or amqps://",
		"amqp://h/v?quee=a":                          `did you mean "queue"`,
		"amqp://h/v?type=stream":                     "quorum and classic",
		"amqp://u:secret%zz@h/v":                     "not a URL",
		"amqp://h?tls_ca=x":                          "wants amqps://",
		"amqp://h?queue=" + strings.Repeat("q", 255): "more than",
	} {
		if _, err := Open(url, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
