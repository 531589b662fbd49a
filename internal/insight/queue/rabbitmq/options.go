package rabbitmq

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/insight/broker"
)

var form = broker.Form{
	Scheme: "amqp", Port: "5672", TLSPort: "5671", Parameters: []string{"queue", "type"},
	Example: "amqp://user:password@localhost:5672/vhost?queue=weir",
}

// endpoint is what a URL says.
type endpoint struct {
	log         *slog.Logger
	tls         *tls.Config // nil: none
	files       certfile.Client
	hosts       []string
	vhost       string
	queue, kind string
	// Both empty for guest, with whom a certificate is tried first.
	user, password string
}

func parse(url string, log *slog.Logger) (*endpoint, error) {
	a, err := form.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("queue rabbitmq: %w", err)
	}
	p := &endpoint{log: log, tls: a.TLS, files: a.Files, hosts: a.Hosts, vhost: cmp.Or(a.Path, "/"), queue: a.Parameter("queue", "weir"), kind: a.Parameter("type", "quorum"),
		user: a.User, password: a.Password}
	if n := 255 - len(broker.DeadLetterSuffix); len(p.queue) > n {
		return nil, fmt.Errorf("queue %s: the queue's name has more than %d bytes", a.Text, n)
	}
	if p.kind != "quorum" && p.kind != "classic" {
		return nil, fmt.Errorf("queue %s: type %q: quorum and classic are known", a.Text, p.kind)
	}
	return p, nil
}

// sasl returns the ways to log in, new ones each time, since the library wipes
// the password of those that were used.
func (p *endpoint) sasl() []amqp.Authentication {
	if p.user != "" {
		return []amqp.Authentication{&amqp.PlainAuth{Username: p.user, Password: p.password}}
	}
	guest := &amqp.PlainAuth{Username: "guest", Password: "guest"}
	if p.tls != nil && len(p.tls.Certificates) > 0 {
		return []amqp.Authentication{&amqp.ExternalAuth{}, guest}
	}
	return []amqp.Authentication{guest}
}
