package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/queuetest"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/limits"
)

// TestMain is the broker when a test starts this program as one, so that it can
// be killed and stopped like any other.
func TestMain(m *testing.M) {
	if queuetest.Serve(serve) {
		return
	}
	os.Exit(m.Run())
}

func serve(port, dir string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(n), kfake.DataDir(dir), kfake.SyncWrites(),
		kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(4))
	if err != nil {
		return err
	}
	defer c.Close()
	select {}
}

func TestQueue(t *testing.T) {
	p := queuetest.Self(t)
	n := 0
	queuetest.Run(t, func(sub testing.TB) *queuetest.Broker {
		n++
		topic := fmt.Sprintf("weir-%d", n)
		// kfake forgets topics that made themselves when it is killed.
		create(sub, p.Addr, topic, topic+broker.DeadLetterSuffix)
		b := on(p.Addr, topic)
		b.Kill, b.Restart, b.Stall = p.Kill, p.Restart, p.Stall
		return b
	})
}

// With WEIR_KAFKA=HOST:PORT the suite runs against a real broker, which must make
// topics by itself and is not harmed.
func TestRealKafka(t *testing.T) {
	addr := os.Getenv("WEIR_KAFKA")
	if addr == "" {
		t.Skip("set WEIR_KAFKA=HOST:PORT to test against a real broker")
	}
	n := 0
	queuetest.Run(t, func(testing.TB) *queuetest.Broker {
		n++
		return on(addr, fmt.Sprintf("weir-test-%d-%d", time.Now().UnixNano(), n))
	})
}

func on(addr, topic string) *queuetest.Broker {
	url := "kafka://" + addr + "/" + topic
	return &queuetest.Broker{
		Open: func(t testing.TB) event.Queue {
			q, err := Open(url, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return q
		},
		Consume: func(t testing.TB) queuetest.Source {
			s, err := Consume(url, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return s.(queuetest.Source)
		},
		Send: func(t testing.TB, contentType string, body []byte) {
			c := client(t, addr, kgo.AllowAutoTopicCreation())
			defer c.Close()
			r := &kgo.Record{Topic: topic, Value: body, Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(contentType)}}}
			if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		},
		DeadLetters: func(t testing.TB, n int) (out [][]byte) {
			for _, r := range read(t, addr, topic+broker.DeadLetterSuffix, n) {
				out = append(out, r.Value)
			}
			return out
		},
		Refuse: func(t testing.TB) {
			if errors.Is(limit(t, addr, topic+broker.DeadLetterSuffix, 1), kerr.UnknownTopicOrPartition) {
				create(t, addr, topic+broker.DeadLetterSuffix)
			}
			if err := limit(t, addr, topic+broker.DeadLetterSuffix, 1); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// limit makes a topic refuse messages of more bytes.
func limit(t testing.TB, addr, name string, most int) error {
	t.Helper()
	c := client(t, addr)
	defer c.Close()
	change := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	change.Name, change.Value = "max.message.bytes", kmsg.StringPtr(strconv.Itoa(most))
	topic := kmsg.NewIncrementalAlterConfigsRequestResource()
	topic.ResourceType, topic.ResourceName = kmsg.ConfigResourceTypeTopic, name
	topic.Configs = append(topic.Configs, change)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, topic)
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

func create(t testing.TB, addr string, topics ...string) {
	t.Helper()
	c := client(t, addr)
	defer c.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 4, 1
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t testing.TB, addr, name string) {
	t.Helper()
	c := client(t, addr)
	defer c.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req.TopicNames, req.Topics = []string{name}, []kmsg.DeleteTopicsRequestTopic{topic}
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}

// A topic that was deleted and made anew is found again.
func TestTopicMadeAnew(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "weir"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	addr := cluster.ListenAddrs()[0]
	q, err := Open("kafka://"+addr+"/weir", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for i := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		e := event.Event{Source: "n", Sequence: uint64(i + 1), Loss: &event.Loss{}}
		if err := q.Publish(ctx, []event.Event{e}); err != nil {
			t.Fatalf("topic %d: %v", i, err)
		}
		cancel()
		if n := len(read(t, addr, "weir", 1)); n != 1 {
			t.Errorf("topic %d has %d messages", i, n)
		}
		remove(t, addr, "weir")
		create(t, addr, "weir")
	}
}

func client(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// read returns the first n messages of a topic.
func read(t testing.TB, addr, topic string, n int) (out []*kgo.Record) {
	t.Helper()
	c := client(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(out) < n {
		fetched := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d messages in %s, want %d: %v", len(out), topic, n, fetched.Err())
		}
		out = append(out, fetched.Records()...)
	}
	return out
}

// A message is a CloudEvent in structured mode, keyed by what must stay in order.
func TestMessage(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "weir"),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "me", "p@ss"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	addr := cluster.ListenAddrs()[0]
	q, err := Open("kafka://me:p%40ss@"+addr+"/weir", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	e := event.Event{Source: "n/1", Sequence: 7, Time: time.UnixMilli(1_700_000_000_000).UTC(), Record: &event.Record{LimitRef: event.LimitRef{Name: limits.Name{Domain: "d", Rule: "r"}}, Key: "k"}}
	if err := q.Publish(t.Context(), []event.Event{e}); err != nil {
		t.Fatal(err)
	}
	p, err := parse("kafka://me:p%40ss@"+addr+"/weir", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(append(p.options, kgo.ConsumeTopics("weir"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := c.PollFetches(t.Context()).Records()[0]
	if string(r.Key) != e.PartitionKey() || len(r.Headers) != 1 ||
		r.Headers[0].Key != "content-type" || string(r.Headers[0].Value) != "application/cloudevents+json; charset=UTF-8" {
		t.Errorf("got %s", fmt.Sprintf("key %q, %v", r.Key, r.Headers))
	}
	if got, err := event.Decode(r.Value); err != nil || got.ID() != "n/1/7" {
		t.Errorf("%s: %v", r.Value, err)
	}
	wrong, err := Open("kafka://me:other@"+addr+"/weir", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := wrong.Publish(ctx, []event.Event{e}); err == nil {
		t.Error("a wrong password was taken")
	}
}

// With TLS the brokers' certificate is checked.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, _, pair := servertest.Certificate(t, dir, "broker")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "weir"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for url, want := range map[string]bool{
		"kafkas://" + cluster.ListenAddrs()[0] + "/weir?tls_ca=" + cert: true,
		"kafkas://" + cluster.ListenAddrs()[0] + "/weir":                false,
	} {
		q, err := Open(url, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		patience := time.Second
		if want {
			patience = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err = q.Publish(ctx, []event.Event{{Source: "n", Sequence: 1, Loss: &event.Loss{}}})
		if (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
		cancel()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"amqp://h/t":                            "must begin with kafka:// or kafkas://",
		"kafka://h":                             "topic is missing",
		"kafka://h/a/b":                         "letters, digits",
		"kafka://h/..":                          "letters, digits",
		"kafka://h/t?grup=x":                    `did you mean "group"`,
		"kafka://h,h/t":                         "named twice",
		"kafka://h:0/t":                         "not HOST:PORT",
		"kafka:///t":                            "host is missing",
		"kafka://u@h/t":                         "belong together",
		"kafka://u:secret%zz@h/t":               "not a URL",
		"kafka://u:p@h/t?sasl=gss":              "are known",
		"kafka://h/t?sasl=plain":                "wants a user",
		"kafka://h/t?tls_ca=x":                  "wants kafkas://",
		"kafkas://h/t?tls_ca=/nowhere":          "tls_ca",
		"kafka://h/t?group=a&group=b":           "twice",
		"kafka://h/" + strings.Repeat("t", 250): "at most",
	} {
		_, err := Open(url, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
