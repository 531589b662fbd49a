package ratelimit

import (
	"context"
	"log/slog"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/xds"
)

// newXDSSource returns the source of the rules of an xDS server.
func newXDSSource(s *settings.Settings, log *slog.Logger) (ruleSource, error) {
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
	return func(ctx context.Context, r *Rules) { client.Run(ctx, r.Resources) }, nil
}
