package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/insight/broker"
)

const (
	// produceTimeout is how long the brokers may take to reach their replicas.
	produceTimeout = 10 * time.Second
	// deliveryTimeout is when an event that nobody waits for any more is given up.
	deliveryTimeout = 30 * time.Second
	// maxBuffered bounds what waits for the brokers, in events and bytes.
	maxBuffered, maxBufferedBytes = 20_000, 64 << 20
)

var form = broker.Form{
	Scheme: "kafka", Port: "9092", TLSPort: "9093", Parameters: []string{"group", "sasl"},
	Example: "kafka://localhost:9092/weir",
}

// endpoint is what a URL says.
type endpoint struct {
	topic, group string
	log          *slog.Logger
	tls          *tls.Config // nil: none
	files        certfile.Client
	options      []kgo.Opt
}

func parse(url string, log *slog.Logger) (*endpoint, error) {
	a, err := form.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("queue kafka: %w", err)
	}
	p := &endpoint{topic: a.Path, group: a.Parameter("group", "weir"), log: log, tls: a.TLS, files: a.Files}
	if err := checkTopic(p.topic); err != nil {
		return nil, fmt.Errorf("queue %s: %w", a.Text, err)
	}
	p.options = []kgo.Opt{
		kgo.SeedBrokers(a.Hosts...), kgo.ClientID("weir"), kgo.AllowAutoTopicCreation(),
		// Sooner than usual, since a topic or a broker may just be coming.
		kgo.MetadataMinAge(time.Second), kgo.RetryBackoffFn(backoff.After),
	}
	login, err := sasl(a)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", a.Text, err)
	}
	p.options = append(p.options, login...)
	// Without idempotent writes, because those cannot be given up when ctx ends;
	// events have ids for who hears them twice.
	p.options = append(p.options,
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProduceRequestTimeout(produceTimeout), kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.MaxBufferedRecords(maxBuffered), kgo.MaxBufferedBytes(maxBufferedBytes))
	return p, nil
}

// checkTopic leaves room for the suffix of the dead-letter topic.
func checkTopic(name string) error {
	switch {
	case name == "":
		return errors.New("the topic is missing: write " + form.Example)
	case len(name) > 249-len(broker.DeadLetterSuffix):
		return fmt.Errorf("a topic has at most %d bytes", 249-len(broker.DeadLetterSuffix))
	case strings.Trim(name, ".") == "" || strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
	}):
		return fmt.Errorf("topic %q: letters, digits, dots, hyphens and underscores are allowed", name)
	}
	return nil
}

func sasl(a *broker.Address) ([]kgo.Opt, error) {
	word := a.Parameter("sasl", "")
	switch {
	case a.User == "" && word != "":
		return nil, errors.New("sasl wants a user: write kafka://user:password@host/topic")
	case a.User == "":
		return nil, nil
	case word == "" && a.TLS != nil:
		word = "plain"
	case word == "":
		word = "scram-sha-256"
	}
	switch word {
	case "plain":
		return []kgo.Opt{kgo.SASL(plain.Auth{User: a.User, Pass: a.Password}.AsMechanism())}, nil
	case "scram-sha-256":
		return []kgo.Opt{kgo.SASL(scram.Auth{User: a.User, Pass: a.Password}.AsSha256Mechanism())}, nil
	case "scram-sha-512":
		return []kgo.Opt{kgo.SASL(scram.Auth{User: a.User, Pass: a.Password}.AsSha512Mechanism())}, nil
	}
	return nil, fmt.Errorf("sasl %q: plain, scram-sha-256 and scram-sha-512 are known", word)
}
