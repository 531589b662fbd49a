// Package xds fetches rate limit rules from a management server, as the
// aggregated discovery service of xDS has it: state of the world, resources of
// type ratelimit.config.ratelimit.v3.RateLimitConfig. This is how Envoy Gateway
// drives a rate limit service.
//
// A [Client] takes whole sets: each is applied entire, or refused with a reason
// that the management server is told, and then the rules before it stay. The
// client keeps no rules and decides nothing.
package xds

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/certfile"
)

// TypeURL is the type of the resources that a [Client] asks for.
const TypeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// Options configures a [Client]. The comments name the environment variables of
// envoyproxy/ratelimit that set the same.
type Options struct {
	// Server is the address of the management server: HOST:PORT, or a gRPC target
	// with a scheme such as unix:///run/xds.sock. CONFIG_GRPC_XDS_SERVER_URL.
	// Zero means "localhost:18000".
	Server string
	// NodeID says to the management server who asks. CONFIG_GRPC_XDS_NODE_ID.
	// Zero means "default".
	NodeID string
	// NodeMetadata is told beside it. CONFIG_GRPC_XDS_NODE_METADATA, see
	// [ParseNodeMetadata]. Zero means none.
	NodeMetadata map[string]string
	// Headers are sent with each stream, for the management server or a proxy
	// before it. CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS. Zero means none.
	Headers map[string]string
	// TLS is how the connection is secured. CONFIG_GRPC_XDS_SERVER_USE_TLS. Nil
	// means that it is not.
	TLS *TLS
	// ConnectRetry is how long to wait, half more or less at random, after a
	// connection could not be made. CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL.
	// Zero means 3 s.
	ConnectRetry time.Duration
	// Backoff is how long to wait after a stream ended.
	Backoff Backoff
	// MaxMessage is the longest response taken, in bytes; one that is longer ends
	// the stream. XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES. Zero means 4 MiB, gRPC's own.
	MaxMessage int
	// KeepAlive is how long a connection may be silent before the management
	// server is asked for a sign of life; 20 s without one end the connection.
	// Servers that do not say otherwise refuse clients that ask more often than
	// every five minutes; gRPC raises less than 10 s to that. A machine or network
	// that is gone is noticed within a minute in any case, by TCP. Zero means 310 s.
	KeepAlive time.Duration
	// Log is told of connections, of sets and of what is wrong with them. Nil means
	// nobody.
	Log *slog.Logger
}

// TLS names the files that secure a connection: CONFIG_GRPC_XDS_CLIENT_TLS_CERT and
// _KEY, CONFIG_GRPC_XDS_SERVER_TLS_CACERT and _SAN. They are read again for every
// attempt to connect, so that certificates can be renewed under a running node.
type TLS = certfile.Client

// Backoff is how long to wait after the n-th stream in a row that ended without
// a response: Initial · Factor^(n-1), within Initial and Max. A response ends the
// row. So a Factor of 1 or less means Initial, each time.
type Backoff struct {
	// Initial is the shortest wait. XDS_CLIENT_BACKOFF_INITIAL_INTERVAL. Zero means
	// 10 s.
	Initial time.Duration
	// Max is the longest wait; if Initial is longer it is the wait.
	// XDS_CLIENT_BACKOFF_MAX_INTERVAL. Zero means 60 s.
	Max time.Duration
	// Factor makes each wait longer than the last, and not shorter.
	// XDS_CLIENT_BACKOFF_RANDOM_FACTOR. Zero means 0.5.
	Factor float64
	// NoJitter waits the whole time instead of one at random between Initial and
	// it. XDS_CLIENT_BACKOFF_JITTER=false. Zero means jitter.
	NoJitter bool
}

// ParseNodeMetadata reads the form KEY=VALUE,KEY=VALUE of
// CONFIG_GRPC_XDS_NODE_METADATA. What holds no "=" is left out, spaces are kept,
// and the last of a key counts, as in envoyproxy/ratelimit.
func ParseNodeMetadata(s string) map[string]string {
	m := make(map[string]string)
	for entry := range strings.SplitSeq(s, ",") {
		if key, value, ok := strings.Cut(entry, "="); ok {
			m[key] = value
		}
	}
	return m
}

// complete returns opt with what was left out, or what is wrong with it.
func (opt Options) complete() (Options, error) {
	for _, o := range []struct {
		name  string
		value time.Duration
	}{
		{"ConnectRetry", opt.ConnectRetry}, {"Backoff.Initial", opt.Backoff.Initial},
		{"Backoff.Max", opt.Backoff.Max}, {"KeepAlive", opt.KeepAlive},
	} {
		if o.value < 0 {
			return opt, fmt.Errorf("xds: %s is %v: set it to zero or more", o.name, o.value)
		}
	}
	switch {
	case opt.MaxMessage < 0:
		return opt, fmt.Errorf("xds: MaxMessage is %d bytes: set it to zero or more", opt.MaxMessage)
	case !(opt.Backoff.Factor >= 0): // also NaN
		return opt, fmt.Errorf("xds: Backoff.Factor is %v: set it to zero or more", opt.Backoff.Factor)
	}
	for _, key := range slices.Sorted(maps.Keys(opt.Headers)) {
		if err := checkHeader(strings.ToLower(key), opt.Headers[key]); err != nil {
			return opt, fmt.Errorf("xds: header %q: %w", key, err)
		}
	}
	opt.Server = cmp.Or(opt.Server, "localhost:18000")
	opt.NodeID = cmp.Or(opt.NodeID, "default")
	opt.ConnectRetry = cmp.Or(opt.ConnectRetry, 3*time.Second)
	opt.Backoff.Initial = cmp.Or(opt.Backoff.Initial, 10*time.Second)
	opt.Backoff.Max = cmp.Or(opt.Backoff.Max, time.Minute)
	opt.Backoff.Factor = cmp.Or(opt.Backoff.Factor, 0.5)
	opt.MaxMessage = cmp.Or(opt.MaxMessage, 4<<20)
	opt.KeepAlive = cmp.Or(opt.KeepAlive, 310*time.Second)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return opt, nil
}

// checkHeader says why gRPC would fail each stream for the sake of a header.
func checkHeader(key, value string) error {
	if key == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return errors.New("a name has letters, digits, hyphens, underscores and dots only")
	}
	if strings.HasPrefix(key, "grpc-") {
		return errors.New("names that start with grpc- are gRPC's own")
	}
	for i := range len(value) {
		if c := value[i]; (c < ' ' || c > '~') && !strings.HasSuffix(key, "-bin") {
			return errors.New("a value has printable ASCII characters only, unless the name ends in -bin")
		}
	}
	return nil
}
