package certfile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/weirlimit/weir/internal/regular"
)

// Peer names the files, in PEM, by which a node speaks TLS to another server, in
// compatible mode: unlike a [Client] it trusts the authorities of the system too.
type Peer struct {
	// Cert and Key are what the node shows. Zero, for either, means nothing.
	Cert, Key string
	// CA holds authorities that may vouch for the server, beside the system's. Zero
	// means the system's alone.
	CA string
	// ServerName is the name that the server's certificate must be for. Zero means
	// the host.
	ServerName string
	// AnyName accepts a certificate for any name; its authority is still checked.
	AnyName bool
}

// maxPeerFile bounds each file, in bytes.
const maxPeerFile = 4 << 20

// Config reads the files. It returns an error when one of them cannot be used.
func (p Peer) Config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.ServerName}
	if p.Cert != "" && p.Key != "" {
		pair, err := p.pair()
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if p.CA != "" {
		text, err := regular.Read(p.CA, maxPeerFile)
		if err != nil {
			return nil, fmt.Errorf("server authorities: %w", err)
		}
		if conf.RootCAs, err = x509.SystemCertPool(); err != nil {
			conf.RootCAs = x509.NewCertPool() // the system has none: the file's are all
		}
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("server authorities: %s holds no certificate in PEM", p.CA)
		}
	}
	if p.AnyName {
		conf.InsecureSkipVerify = true // of the name; the rest is verified here
		conf.VerifyConnection = verifyAuthority(conf.RootCAs)
	}
	return conf, nil
}

// pair reads what the node shows.
func (p Peer) pair() (tls.Certificate, error) {
	cert, err := regular.Read(p.Cert, maxPeerFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("client certificate: %w", err)
	}
	key, err := regular.Read(p.Key, maxPeerFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("client key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("client certificate %s with key %s: %w", p.Cert, p.Key, err)
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
