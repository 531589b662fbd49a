package ratelimit

import (
	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

// The files by which this node speaks TLS to others.

func redisTLS(s *settings.Settings) certfile.Client {
	return certfile.Client{Compatible: true, Cert: s.RedisTLSClientCert, Key: s.RedisTLSClientKey, CA: s.RedisTLSCACert, AnyName: s.RedisTLSSkipHostname}
}

func memcacheTLS(s *settings.Settings) certfile.Client {
	return certfile.Client{Compatible: true, Cert: s.MemcacheTLSClientCert, Key: s.MemcacheTLSClientKey, CA: s.MemcacheTLSCACert, AnyName: s.MemcacheTLSSkipHostname}
}

func xdsTLS(s *settings.Settings) certfile.Client {
	return certfile.Client{Compatible: true, Cert: s.XDSClientTLSCert, Key: s.XDSClientTLSKey, CA: s.XDSServerTLSCACert, ServerName: s.XDSServerTLSSAN}
}

// checkTLS reads the files that the settings switch on, of stores and servers
// that are not used too.
func checkTLS(s *settings.Settings) error {
	for _, of := range []struct {
		on    bool
		files certfile.Client
	}{{s.RedisTLS || s.PerSecondTLS, redisTLS(s)}, {s.MemcacheTLS, memcacheTLS(s)}, {s.XDSServerUseTLS, xdsTLS(s)}} {
		if of.on {
			if _, err := of.files.Config(nil); err != nil {
				return err
			}
		}
	}
	return nil
}
