package nats

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/queuetest"
	"github.com/weirlimit/weir/internal/testing/queuetest/brokers"
)

// TestMain is the broker when a test starts this program as one, so that it can
// be killed and stopped like any other.
func TestMain(m *testing.M) {
	if queuetest.Serve(brokers.NATS) {
		return
	}
	os.Exit(m.Run())
}

func TestQueue(t *testing.T) {
	p := queuetest.Self(t)
	n := 0
	queuetest.Run(t, func(testing.TB) *queuetest.Broker {
		n++
		b := on(p.Addr, fmt.Sprintf("weir-%d", n))
		b.Kill, b.Restart, b.Stall = p.Kill, p.Restart, p.Stall
		return b
	})
}

func on(addr, stream string) *queuetest.Broker {
	url := "nats://" + addr + "/" + stream
	return &queuetest.Broker{
		Open: func(t testing.TB) event.Queue { return open(t, url, slog.New(slog.DiscardHandler)) },
		Consume: func(t testing.TB) queuetest.Source {
			s, err := Consume(url, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return s.(queuetest.Source)
		},
		Send: func(t testing.TB, contentType string, body []byte) {
			js := connect(t, addr)
			if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: stream + ".events", Data: body, Header: nats.Header{"Content-Type": {contentType}}}); err != nil {
				t.Fatal(err)
			}
			js.Conn().Close()
		},
		DeadLetters: func(t testing.TB, n int) (out [][]byte) {
			for _, m := range read(t, addr, stream+"_dlq", n) {
				out = append(out, m.Data)
			}
			return out
		},
		Refuse: func(t testing.TB) {
			js := connect(t, addr)
			defer js.Conn().Close()
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream + "_dlq", Subjects: []string{stream + ".dlq"}, MaxMsgSize: 1}); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func open(t testing.TB, url string, log *slog.Logger) event.Queue {
	t.Helper()
	q, err := Open(url, log)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func connect(t testing.TB, addr string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// read returns the first n messages of a stream.
func read(t testing.TB, addr, name string, n int) (out []*jetstream.RawStreamMsg) {
	t.Helper()
	js := connect(t, addr)
	defer js.Conn().Close()
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().State.Msgs; got != uint64(n) {
		t.Fatalf("%d messages in %s, want %d", got, name, n)
	}
	for i := range n {
		m, err := s.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// A message is a list of CloudEvents, and the stream keeps it once however often
// it is sent.
func TestMessage(t *testing.T) {
	addr := queuetest.Self(t).Addr
	q := open(t, "nats://"+addr+"/weir", slog.New(slog.DiscardHandler))
	defer q.Close()
	batch := []event.Event{{Source: "n/1", Sequence: 7, Time: time.Unix(1_700_000_000, 0).UTC(), Loss: &event.Loss{Dropped: 1}}}
	for range 2 {
		if err := q.Publish(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	m := read(t, addr, "weir", 1)[0]
	z, err := gzip.NewReader(bytes.NewReader(m.Data))
	if err != nil || m.Header.Get("content-encoding") != "gzip" {
		t.Fatalf("headers %v: %v", m.Header, err)
	}
	var list []map[string]any
	if err := json.NewDecoder(z).Decode(&list); err != nil || len(list) != 1 || list[0]["specversion"] != "1.0" || list[0]["id"] != "7" {
		t.Errorf("%s: %v", m.Data, err)
	}
	if got := m.Header["content-type"]; len(got) != 1 || got[0] != "application/cloudevents-batch+json" {
		t.Errorf("headers %v", m.Header)
	}
}

// A stream that is full takes nothing, and Publish says so.
func TestFull(t *testing.T) {
	addr := queuetest.Self(t).Addr
	js := connect(t, addr)
	defer js.Conn().Close()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "weir", Subjects: []string{"weir.events"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}); err != nil {
		t.Fatal(err)
	}
	q := open(t, "nats://"+addr+"/weir", slog.New(slog.DiscardHandler))
	defer q.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 2 {
		err := q.Publish(ctx, []event.Event{{Source: "n/1", Sequence: uint64(i + 1), Loss: &event.Loss{}}})
		if api := (*jetstream.APIError)(nil); (i == 1) != errors.As(err, &api) {
			t.Errorf("batch %d: %v", i, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"kafka://h/s":             "must begin with nats:// or natss://",
		"nats://h":                "stream is missing",
		"nats://h/a.b":            "no spaces, dots",
		"nats://h/s?group=a%3E":   "group \"a>\"",
		"nats://h/s?grop=a":       `did you mean "group"`,
		"nats://u:secret%zz@h/s":  "not a URL",
		"nats://h/s?tls_key=x":    "wants natss://",
		"natss://h/s?tls_key=x":   "belong together",
		"nats://h/s#f":            "no fragment",
		"nats://h/s?creds=/no/co": "", // read when a server asks
	} {
		q, err := Open(url, slog.New(slog.DiscardHandler))
		if err == nil {
			q.Close()
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
