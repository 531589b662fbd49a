package rabbitmq

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/insight/broker"
)

// Options are the ways in which a queue or a source can differ. The zero value
// is good.
type Options struct {
	// TLS is where amqps:// starts from. Zero means the system's authorities.
	TLS *tls.Config
	// Uncompressed sends events as they are. Zero means compressed.
	Uncompressed bool
	// Log hears of brokers that are away, of events that are not taken, and of
	// messages that are none. Zero means nobody.
	Log *slog.Logger
}

var form = broker.Form{
	Scheme: "amqp", Port: "5672", TLSPort: "5671", Parameters: []string{"queue", "type"},
	Example: "amqp://user:password@localhost:5672/vhost?queue=weir",
}

// endpoint is what a URL says.
type endpoint struct {
	Options
	hosts       []string
	vhost       string
	queue, kind string
	// Both empty for guest, with whom a certificate is tried first.
	user, password string
}

func parse(url string, opt Options) (*endpoint, error) {
	a, err := form.Parse(url, opt.TLS)
	if err != nil {
		return nil, fmt.Errorf("queue rabbitmq: %w", err)
	}
	p := &endpoint{Options: opt, hosts: a.Hosts, vhost: a.Path, queue: a.Parameter("queue", "weir"), kind: a.Parameter("type", "quorum")}
	p.TLS = a.TLS
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.vhost == "" {
		p.vhost = "/"
	}
	if n := 255 - len(dlqSuffix); len(p.queue) > n {
		return nil, fmt.Errorf("queue %s: the queue's name has more than %d bytes", a.Text, n)
	}
	if p.kind != "quorum" && p.kind != "classic" {
		return nil, fmt.Errorf("queue %s: type %q: quorum and classic are known", a.Text, p.kind)
	}
	p.user, p.password = a.User, a.Password
	return p, nil
}

// sasl returns the ways to log in, new ones each time, since the library wipes
// the password of those that were used.
func (p *endpoint) sasl() []amqp.Authentication {
	if p.user != "" {
		return []amqp.Authentication{&amqp.PlainAuth{Username: p.user, Password: p.password}}
	}
	guest := &amqp.PlainAuth{Username: "guest", Password: "guest"}
	if p.TLS != nil && len(p.TLS.Certificates) > 0 {
		return []amqp.Authentication{&amqp.ExternalAuth{}, guest}
	}
	return []amqp.Authentication{guest}
}
