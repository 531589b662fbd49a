package gateway

import (
	"cmp"
	"net"
	"net/http"
	"time"
)

// Defaults of Forward.
const (
	connectTimeout = 5 * time.Second
	headerTimeout  = time.Minute
)

// transports are those that were made, by what they are made for.
type transports map[transportKey]*http.Transport

type transportKey struct {
	scheme, host    string
	connect, header time.Duration
}

func (ts transports) get(f *Forward) *http.Transport {
	k := transportKey{f.Upstream.Scheme, f.Upstream.Host, cmp.Or(f.ConnectTimeout, connectTimeout), cmp.Or(f.HeaderTimeout, headerTimeout)}
	if ts[k] == nil {
		ts[k] = newTransport(k)
	}
	return ts[k]
}

// newTransport returns what reaches an upstream.
func newTransport(k transportKey) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.DialContext = (&net.Dialer{Timeout: k.connect, KeepAlive: 15 * time.Second}).DialContext
	t.TLSHandshakeTimeout = k.connect
	t.ResponseHeaderTimeout = k.header
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
	// Shorter than nginx keeps them: who closes first must not be the one who
	// does not ask.
	t.IdleConnTimeout = time.Minute
	t.MaxResponseHeaderBytes = 1 << 20
	// Whether answers are compressed is between the client and the upstream.
	t.DisableCompression = true
	// A connection that went dead without a word is noticed.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}
	if k.scheme == "h2c" {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return t
}
