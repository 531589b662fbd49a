package certfile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/weirlimit/weir/internal/regular"
)

// Client is by what a client knows a server, and shows who it is: files in PEM, as
// the parameters tls_ca, tls_cert, tls_key and tls_server_name of a URL name them.
type Client struct {
	// CA holds the authorities of servers. Zero means those of the system.
	CA string
	// Cert and Key are what the client shows. Zero means nothing.
	Cert, Key string
	// ServerName is the name that a server's certificate must be for. Zero means
	// the host.
	ServerName string
}

// Config returns from, which may be nil, with what c says; TLS 1.2 is the least.
func (c Client) Config(from *tls.Config) (*tls.Config, error) {
	conf := from.Clone()
	if conf == nil {
		conf = &tls.Config{}
	}
	conf.MinVersion = max(conf.MinVersion, tls.VersionTLS12)
	if c.ServerName != "" {
		conf.ServerName = c.ServerName
	}
	if c.CA != "" {
		text, err := regular.Read(c.CA, maxFile)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls_ca: %s holds no PEM certificate", c.CA)
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("tls_cert and tls_key belong together: name both")
	}
	if c.Cert != "" {
		cert, err := regular.Read(c.Cert, maxFile)
		if err != nil {
			return nil, fmt.Errorf("tls_cert: %w", err)
		}
		key, err := regular.Read(c.Key, maxFile)
		if err != nil {
			return nil, fmt.Errorf("tls_key: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// Dial connects to a server by d, with TLS unless conf is nil: as the files say by now, as they
// may have been renewed. While they cannot be used, as files that are half written, conf still
// may do; where it does not, the error says of both why.
func (c Client) Dial(ctx context.Context, d *net.Dialer, conf *tls.Config, network, addr string) (net.Conn, error) {
	if conf == nil {
		return d.DialContext(ctx, network, addr)
	}
	now, unusable := c.Config(conf)
	if unusable != nil {
		now = conf
	}
	conn, err := (&tls.Dialer{NetDialer: d, Config: now}).DialContext(ctx, network, addr)
	if err != nil && unusable != nil {
		err = errors.Join(err, unusable)
	}
	return conn, err
}
