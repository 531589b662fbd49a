package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/broker"
)

const (
	// maxDial bounds one attempt to connect, maxWrite one to write: what a server
	// that stands still can hold up.
	maxDial, maxWrite = 5 * time.Second, 2 * time.Second
	// pingEvery is how often a connection is tried; two pings without an answer
	// end it.
	pingEvery = 5 * time.Second

	contentTypeHeader = "content-type"
	encodingHeader    = "content-encoding"
)

var form = broker.Form{
	Scheme: "nats", Port: "4222", TLSPort: "4222", Parameters: []string{"creds", "group"},
	Example: "nats://localhost:4222/weir",
}

// endpoint is what a URL says.
type endpoint struct {
	log           *slog.Logger
	urls          string
	stream, group string
	options       []nats.Option
}

func parse(url string, log *slog.Logger) (*endpoint, error) {
	a, err := form.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("queue nats: %w", err)
	}
	p := &endpoint{log: log, stream: a.Path, group: a.Parameter("group", "weir"), urls: "nats://" + strings.Join(a.Hosts, ",nats://")}
	for what, name := range map[string]string{"stream": p.stream, "group": p.group} {
		if err := checkName(what, name); err != nil {
			return nil, fmt.Errorf("queue %s: %w", a.Text, err)
		}
	}
	p.options = []nats.Option{
		nats.Name("weir"), nats.Timeout(maxDial), nats.FlusherTimeout(maxWrite),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2),
		// For ever, and nothing is kept back meanwhile: Publish has to know.
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(backoff.After), nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("queue connection lost; events are buffered up to a bound, decisions are not affected", "stream", p.stream, "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("queue connection recovered", "stream", p.stream) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("nats: asynchronous error", "err", err)
		}),
	}
	if a.User != "" {
		p.options = append(p.options, nats.UserInfo(a.User, a.Password))
	}
	if file := a.Parameter("creds", ""); file != "" {
		p.options = append(p.options, nats.UserCredentials(file))
	}
	if a.TLS != nil {
		p.options = append(p.options, nats.Secure(a.TLS))
	}
	return p, nil
}

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s is missing: write %s", what, form.Example)
	case len(name) > 200:
		return fmt.Errorf("the %s has more than 200 bytes", what)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`.*>/\`, r) }):
		return fmt.Errorf("%s %q: no spaces, dots, asterisks, angle brackets and slashes are allowed", what, name)
	}
	return nil
}

func (p *endpoint) subject() string    { return p.stream + ".events" }
func (p *endpoint) dlqSubject() string { return p.stream + broker.DeadLetterSuffix }

// connect returns a connection that comes about, and comes back, by itself.
func (p *endpoint) connect() (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(p.urls, p.options...)
	if err != nil {
		return nil, nil, fmt.Errorf("queue nats: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("queue nats: %w", err)
	}
	return nc, js, nil
}

// makeStreams makes the streams that are missing.
func (p *endpoint) makeStreams(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.Stream(ctx, p.stream)
	err = p.makeStream(ctx, js, err, jetstream.StreamConfig{
		Name: p.stream, Subjects: []string{p.subject()}, Description: "events of weir",
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return err
	}
	_, err = js.StreamNameBySubject(ctx, p.dlqSubject())
	return p.makeStream(ctx, js, err, jetstream.StreamConfig{
		Name: p.stream + "_dlq", Subjects: []string{p.dlqSubject()}, Description: "messages of " + p.stream + " that are not events of weir",
		Storage: jetstream.FileStorage,
	})
}

// makeStream makes a stream if looking for it failed since there is none.
func (p *endpoint) makeStream(ctx context.Context, js jetstream.JetStream, err error, conf jetstream.StreamConfig) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, conf)
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("stream %s: %w", conf.Name, err)
	}
	return nil
}

// passing reports whether an error is of the connection, which comes back.
func passing(err error) bool {
	return slices.ContainsFunc([]error{nats.ErrReconnectBufExceeded, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrNoResponders,
		nats.ErrTimeout, jetstream.ErrNoStreamResponse, nats.ErrStaleConnection}, func(known error) bool { return errors.Is(err, known) })
}
