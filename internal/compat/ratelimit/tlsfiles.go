package ratelimit

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/regular"
)

// clientTLS names the files by which this node speaks TLS to a store.
type clientTLS struct {
	cert, key, ca string
	anyName       bool // accept a certificate for another host
}

// maxPEM bounds each file, in bytes.
const maxPEM = 1 << 20

// ClientTLS returns how to speak TLS to a server: with a certificate if cert and
// key name one, and with the authorities of the file ca beside the system's. It
// returns an error when a file cannot be used.
func ClientTLS(cert, key, ca string) (*tls.Config, error) {
	return clientTLS{cert, key, ca, false}.config()
}

// The files by which this node speaks TLS to others.
func redisTLS(s *settings.Settings) clientTLS {
	return clientTLS{s.RedisTLSClientCert, s.RedisTLSClientKey, s.RedisTLSCACert, s.RedisTLSSkipHostname}
}

func memcacheTLS(s *settings.Settings) clientTLS {
	return clientTLS{s.MemcacheTLSClientCert, s.MemcacheTLSClientKey, s.MemcacheTLSCACert, s.MemcacheTLSSkipHostname}
}

// checkTLS reads the files that the settings switch on, of stores and servers
// that are not used too.
func checkTLS(s *settings.Settings) error {
	for _, of := range []struct {
		on    bool
		files clientTLS
	}{
		{s.RedisTLS || s.PerSecondTLS, redisTLS(s)},
		{s.MemcacheTLS, memcacheTLS(s)},
		{s.XDSServerUseTLS, clientTLS{s.XDSClientTLSCert, s.XDSClientTLSKey, s.XDSServerTLSCACert, false}},
	} {
		if of.on {
			if _, err := of.files.config(); err != nil {
				return err
			}
		}
	}
	return nil
}

// config reads the files.
func (f clientTLS) config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.cert != "" && f.key != "" {
		cert, err := readPEM(f.cert)
		if err != nil {
			return nil, err
		}
		key, err := readPEM(f.key)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls certificate %s with key %s: %w", f.cert, f.key, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if f.ca != "" {
		pem, err := readPEM(f.ca)
		if err != nil {
			return nil, err
		}
		// Where the system has no authorities of its own, those of the file
		// are all there are.
		if conf.RootCAs, err = x509.SystemCertPool(); err != nil {
			conf.RootCAs = x509.NewCertPool()
		}
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls authorities: %s holds no certificate in PEM", f.ca)
		}
	}
	if f.anyName {
		conf.InsecureSkipVerify = true // of the name; the rest is verified here
		roots := conf.RootCAs
		conf.VerifyConnection = func(s tls.ConnectionState) error {
			opt := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
			for _, c := range s.PeerCertificates[1:] {
				opt.Intermediates.AddCert(c)
			}
			_, err := s.PeerCertificates[0].Verify(opt)
			return err
		}
	}
	return conf, nil
}

func readPEM(path string) ([]byte, error) {
	data, err := regular.Read(path, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return data, nil
}
