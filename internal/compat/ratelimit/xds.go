package ratelimit

import (
	"context"
	"log/slog"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/xds"
)

// xdsSource has the rules of an xDS server.
type xdsSource struct{ client *xds.Client }

func newXDSSource(s *settings.Settings, log *slog.Logger) (*xdsSource, error) {
	opt := xds.Options{
		Server: s.XDSServerURL, NodeID: s.XDSNodeID, NodeMetadata: xds.ParseNodeMetadata(s.XDSNodeMetadata),
		Headers: s.XDSHeaders, ConnectRetry: s.XDSConnectRetry, MaxMessage: s.XDSMaxMessageBytes, Log: log,
		Backoff: xds.Backoff{
			Initial: s.XDSBackoffInitial, Max: s.XDSBackoffMax, Factor: s.XDSBackoffFactor, NoJitter: !s.XDSBackoffJitter,
		},
	}
	if s.XDSServerUseTLS {
		files := xdsTLS(s)
		opt.TLS = &files
	}
	client, err := xds.New(opt)
	if err != nil {
		return nil, err
	}
	return &xdsSource{client}, nil
}

// Run implements Source.
func (x *xdsSource) Run(ctx context.Context, r *Rules) error { return x.client.Run(ctx, r.Resources) }
