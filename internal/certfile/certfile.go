// Package certfile keeps the certificate of a listener, read from files and read
// again when they change.
package certfile

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/internal/regular"
)

// Files are where the certificate of a listener lies, in PEM.
type Files struct {
	Cert string
	Key  string
	// ClientCA holds authorities of clients, who must then show a certificate
	// signed by one of them. Zero means that clients show none.
	ClientCA string
	// ClientSAN is a name or an address that the certificate of a client must
	// be for. It needs ClientCA. Zero means any.
	ClientSAN string
}

// Certificate is a key pair, and optionally the authorities of clients. Safe for
// concurrent use.
type Certificate struct {
	files Files
	log   *slog.Logger
	held  atomic.Pointer[tls.Config]

	// mu is held while files are read, so that attempts have an order.
	mu sync.Mutex
	// tried is the hash of the last attempt's files, or the error if they could
	// not be read. Requires: mu.
	tried string
}

// Open reads the files, which must be good.
func Open(files Files, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{files: files, log: log}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.load()
}

// load reads the files and, if all are good, uses them for connections from
// now on. Requires: mu.
func (c *Certificate) load() error {
	cert, key, ca, err := c.read()
	if err != nil {
		return err
	}
	if c.files.ClientSAN != "" && c.files.ClientCA == "" {
		return fmt.Errorf("tls: the clients' name %q is not looked at without their authorities: name those too", c.files.ClientSAN)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("tls certificate %s with key %s: %w", c.files.Cert, c.files.Key, err)
	}
	conf := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if c.files.ClientCA != "" {
		conf.ClientCAs = x509.NewCertPool()
		if !conf.ClientCAs.AppendCertsFromPEM(ca) {
			return fmt.Errorf("tls client authorities: %s holds no certificate in PEM", c.files.ClientCA)
		}
		conf.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if name := c.files.ClientSAN; name != "" {
		// For resumed connections too, as VerifyPeerCertificate would not be.
		conf.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(name) }
	}
	c.held.Store(conf)
	return nil
}

// read returns the content of the files and remembers its hash, so that the
// same content is not tried twice. Requires: mu.
func (c *Certificate) read() (cert, key, ca []byte, err error) {
	h := sha256.New()
	defer func() {
		c.tried = string(h.Sum(nil))
		if err != nil {
			c.tried = err.Error()
		}
	}()
	for _, f := range []struct {
		path string
		into *[]byte
	}{{c.files.Cert, &cert}, {c.files.Key, &key}, {c.files.ClientCA, &ca}} {
		if f.path == "" {
			continue
		}
		data, err := regular.Read(f.path, maxFile)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("tls: %w", err)
		}
		*f.into = data
		sum := sha256.Sum256(data)
		h.Write(sum[:])
	}
	return cert, key, ca, nil
}

// maxFile bounds each file, in bytes.
const maxFile = 4 << 20

// Config returns the configuration of a listener, which asks c anew at every
// handshake.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.held.Load(), nil },
		// Not reached while GetConfigForClient answers; its presence tells
		// http.Server that there is a certificate.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.held.Load().Certificates[0], nil
		},
	}
}

// File returns the path of the certificate.
func (c *Certificate) File() string { return c.files.Cert }

// Expires returns when the certificate in use ends.
func (c *Certificate) Expires() time.Time { return c.held.Load().Certificates[0].Leaf.NotAfter }

// Reload reads the files of a running server: what is broken is logged, and the
// last good certificate stays.
func (c *Certificate) Reload() { c.again(true) }

// follow is Reload for files that may have changed: it says nothing of files
// that are as they were at the last attempt.
func (c *Certificate) follow() { c.again(false) }

func (c *Certificate) again(asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.tried
	err := c.load()
	switch same := c.tried == before; {
	case same && !asked:
	case err != nil:
		c.log.Error("certificate reload failed; the last good one stays in use", "err", err)
	case same:
		c.log.Info("certificate reloaded, unchanged", "cert", c.files.Cert)
	default:
		c.log.Info("certificate reloaded", "cert", c.files.Cert)
	}
}

const (
	// settle is how long files must be quiet before they are read: a certificate
	// and its key are rarely written at the same instant.
	settle = 100 * time.Millisecond
	// poll is how often to look for what no event told.
	poll = time.Minute
)

// Watch reloads until ctx ends.
func (c *Certificate) Watch(ctx context.Context) {
	w := filewatch.New(filewatch.Options{Settle: settle, Poll: poll, Log: c.log, Name: "certificate"})
	defer w.Close()
	// They may have changed since they were first read.
	for err := error(nil); err == nil; _, err = w.Wait(ctx) {
		w.Follow(c.files.Cert, c.files.Key, c.files.ClientCA)
		c.follow()
	}
}
