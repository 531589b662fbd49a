package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/insight/broker"
)

const (
	// maxDial bounds one attempt to connect, maxLeave the farewell.
	maxDial, maxLeave = 10 * time.Second, time.Second
	// heartbeat is how often a connection is tried.
	heartbeat = 10 * time.Second
	// window is how many messages may be on their way unconfirmed.
	window = 128
)

// errRefused says that the broker has a message and does not want it.
var errRefused = errors.New("the broker refuses a message")

// session is a connection with one channel in confirm mode, on which the queues
// are known to be there.
type session struct {
	nc       net.Conn
	conn     *amqp.Connection
	ch       *amqp.Channel
	gone     chan *amqp.Error
	returned chan amqp.Return

	mu      sync.Mutex
	blocked string // why the broker takes nothing at present
}

// connect returns a session with the first host that answers.
func (p *endpoint) connect(ctx context.Context) (*session, error) {
	var failed []error
	for _, host := range p.hosts {
		s, err := p.connectTo(ctx, host)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w (%w)", host, ctx.Err(), err)
		}
		failed = append(failed, fmt.Errorf("%s: %w", host, err))
	}
	return nil, errors.Join(failed...)
}

func (p *endpoint) connectTo(ctx context.Context, host string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, maxDial)
	defer cancel()
	nc, err := p.files.Dial(ctx, &net.Dialer{}, p.tls, "tcp", host)
	if err != nil {
		return nil, err
	}
	// What follows does not heed ctx by itself.
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	s, err := p.open(nc)
	if !stop() && err == nil {
		s.close()
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close() // err says what went wrong
		return nil, err
	}
	return s, nil
}

func (p *endpoint) open(nc net.Conn) (*session, error) {
	conn, err := amqp.Open(nc, amqp.Config{
		SASL: p.sasl(), Vhost: p.vhost, Heartbeat: heartbeat, FrameSize: 128 << 10, Locale: "en_US",
		Properties: amqp.Table{"connection_name": "weir", "product": "weir"},
	})
	if err != nil {
		return nil, err
	}
	s := &session{nc: nc, conn: conn}
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	go func() { // until the connection ends
		for b := range blocked {
			s.mu.Lock()
			if s.blocked = ""; b.Active {
				s.blocked = b.Reason
			}
			s.mu.Unlock()
		}
	}()
	if err := p.prepare(s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// prepare makes the queues that are missing, and the channel.
func (p *endpoint) prepare(s *session) (err error) {
	for _, name := range []string{p.queue, p.queue + broker.DeadLetterSuffix} {
		if err := p.makeQueue(s.conn, name); err != nil {
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
	if s.ch, err = s.conn.Channel(); err != nil {
		return err
	}
	s.gone = s.ch.NotifyClose(make(chan *amqp.Error, 1))
	s.returned = s.ch.NotifyReturn(make(chan amqp.Return, window))
	return s.ch.Confirm(false)
}

// makeQueue makes a queue unless there is one, of whatever type.
func (p *endpoint) makeQueue(conn *amqp.Connection, name string) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	_, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if refusal, ok := errors.AsType[*amqp.Error](err); ok && refusal.Code == amqp.NotFound {
		if ch, err = conn.Channel(); err != nil { // the answer has closed the other
			return err
		}
		_, err = ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": p.kind})
	}
	if err != nil {
		return err
	}
	return ch.Close()
}

// publish hands over messages, and returns when all are confirmed.
func (s *session) publish(ctx context.Context, queue string, messages []amqp.Publishing) error {
	// A write to a broker that stands still does not heed ctx.
	defer context.AfterFunc(ctx, func() { _ = s.nc.Close() })()
	for len(messages) > 0 {
		n := min(len(messages), window)
		if err := s.publishWindow(ctx, queue, messages[:n]); err != nil {
			if ctx.Err() == nil {
				return err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.blocked != "" {
				return fmt.Errorf("%w: the broker takes nothing: %s", ctx.Err(), s.blocked)
			}
			return ctx.Err()
		}
		messages = messages[n:]
	}
	return nil
}

func (s *session) publishWindow(ctx context.Context, queue string, messages []amqp.Publishing) error {
	sent := make([]*amqp.DeferredConfirmation, len(messages))
	for i, m := range messages {
		var err error
		// Mandatory: a message for a queue that was deleted is confirmed too, but
		// returned before.
		if sent[i], err = s.ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, m); errors.Is(err, amqp.ErrClosed) {
			return s.why()
		} else if err != nil {
			return err
		}
	}
	for _, c := range sent {
		ok, err := c.WaitContext(ctx)
		if err != nil {
			return err
		}
		if !ok {
			if s.conn.IsClosed() || s.ch.IsClosed() {
				return s.why()
			}
			return errRefused
		}
	}
	select {
	case r, open := <-s.returned:
		if open {
			return fmt.Errorf("%w: %d %s, queue %s", errRefused, r.ReplyCode, r.ReplyText, queue)
		}
		return s.why()
	default:
		return nil
	}
}

// answers reports whether the broker answers. A session that it does not answer in the
// time of ctx ends.
func (s *session) answers(ctx context.Context) bool {
	stop := context.AfterFunc(ctx, func() { _ = s.nc.Close() })
	ch, err := s.conn.Channel()
	if err == nil {
		err = ch.Close()
	}
	return stop() && err == nil
}

// why tells what has ended the session. An error of the channel alone is about a message:
// the broker does not want it, however often it comes.
func (s *session) why() error {
	select {
	case e := <-s.gone:
		switch {
		case e == nil:
		case e.Code == amqp.ContentTooLarge || e.Code == amqp.AccessRefused || e.Code == amqp.PreconditionFailed:
			return fmt.Errorf("%w: %w", errRefused, e)
		default:
			return e
		}
	default:
	}
	return amqp.ErrClosed
}

// close ends the session, with a farewell if the broker listens.
func (s *session) close() {
	// Whatever goes wrong here, the connection is gone.
	_ = s.conn.CloseDeadline(time.Now().Add(maxLeave))
	_ = s.nc.Close()
}

// publisher publishes on one session after another.
type publisher struct {
	endpoint *endpoint
	session  *session // nil while there is none
}

// publish hands over messages. After an error the next call begins a session, which
// makes the queue if it is gone.
func (p *publisher) publish(ctx context.Context, queue string, messages []amqp.Publishing) (err error) {
	if p.session != nil && (p.session.conn.IsClosed() || p.session.ch.IsClosed()) {
		p.drop()
	}
	if p.session == nil {
		if p.session, err = p.endpoint.connect(ctx); err != nil {
			return err
		}
	}
	if err = p.session.publish(ctx, queue, messages); err != nil {
		// What is still to come on this channel would be taken for the next batch's.
		p.drop()
	}
	return err
}

// drop ends the session.
func (p *publisher) drop() {
	if p.session != nil {
		p.session.close()
		p.session = nil
	}
}

// publishing returns a message for the broker.
func publishing(m broker.Message, contentType string) amqp.Publishing {
	return amqp.Publishing{
		ContentType: contentType, ContentEncoding: m.Encoding, DeliveryMode: amqp.Persistent,
		MessageId: m.ID, AppId: "weir", Body: m.Body,
	}
}
