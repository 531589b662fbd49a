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
// the parameters tls_ca, tls_cert, tls_key and tls_server_name of a URL name them, and
// variables of compatible mode.
type Client struct {
	// CA holds the authorities of servers. Zero means those of the system.
	CA string
	// Cert and Key are what the client shows. Zero means nothing.
	Cert, Key string
	// ServerName is the name that a server's certificate must be for. Zero means
	// the host.
	ServerName string
	// AnyName accepts a certificate for any name; its authority is still checked.
	AnyName bool
	// Compatible takes the files as envoyproxy/ratelimit does: the authorities of CA count
	// beside those of the system, and a certificate without its key is not shown.
	Compatible bool
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
			return nil, fmt.Errorf("%s: %w", c.words().ca, err)
		}
		conf.RootCAs = c.roots()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s holds no PEM certificate", c.words().ca, c.CA)
		}
	}
	switch {
	case c.Cert != "" && c.Key != "":
		pair, err := c.pair()
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	case c.Cert != c.Key && !c.Compatible:
		return nil, errors.New("tls_cert and tls_key belong together: name both")
	}
	if c.AnyName {
		conf.InsecureSkipVerify = true // of the name; the rest is verified here
		conf.VerifyConnection = verifyAuthority(conf.RootCAs)
	}
	return conf, nil
}

// words name the files in errors: by the parameters of a URL, or by what they hold.
func (c Client) words() (w struct{ ca, cert, key string }) {
	w.ca, w.cert, w.key = "tls_ca", "tls_cert", "tls_key"
	if c.Compatible {
		w.ca, w.cert, w.key = "server authorities", "client certificate", "client key"
	}
	return w
}

// roots returns the authorities that count beside those of c's file.
func (c Client) roots() *x509.CertPool {
	if c.Compatible {
		if system, err := x509.SystemCertPool(); err == nil { // else it has none: the file's are all
			return system
		}
	}
	return x509.NewCertPool()
}

// pair reads what the client shows.
func (c Client) pair() (tls.Certificate, error) {
	cert, err := regular.Read(c.Cert, maxFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", c.words().cert, err)
	}
	key, err := regular.Read(c.Key, maxFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", c.words().key, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("%s, %s: %s with %s: %w", c.words().cert, c.words().key, c.Cert, c.Key, err)
	}
	return pair, nil
}

// verifyAuthority returns the check that a certificate is signed by one of roots, nil
// for those of the system.
func verifyAuthority(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		opt := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, c := range s.PeerCertificates[1:] {
			opt.Intermediates.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(opt)
		return err
	}
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
