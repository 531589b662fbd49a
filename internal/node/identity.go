package node

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/metrics"
)

// callers finds out who sent a request, and keeps the file of API keys up to date. Safe for
// concurrent use.
type callers struct {
	*identity.Resolver
	keys *credentials.KeyFile // nil without one
	conf *config.Identity
	log  *slog.Logger
}

// openCallers opens what finds out who sent a request.
func openCallers(c *config.Identity, log *slog.Logger) (*callers, error) {
	who, keys, err := c.OpenResolver(log, true)
	if err != nil {
		return nil, err
	}
	out := &callers{who, keys, c, log}
	out.warnOfKeys()
	return out, nil
}

// warnOfKeys warns of what rules ask of the file of keys and it has for no caller.
func (s *callers) warnOfKeys() {
	if s.keys == nil {
		return
	}
	for _, why := range s.keys.Doubts(s.conf.User, s.conf.Tier) {
		s.log.Warn("API key file incomplete", "file", s.conf.APIKey.File, "reason", why)
	}
}

// clientOf returns the address that a request to the API is from.
func (s *callers) clientOf(r *http.Request) netip.Addr {
	c := s.Acquire()
	defer c.Release()
	c.SetHTTP(r)
	return c.Address()
}

// metrics counts credentials that failed and fields of untrusted proxies.
func (s *callers) metrics() metrics.Identity {
	var m metrics.Identity
	for _, f := range s.Failures() {
		m.Failures = append(m.Failures, metrics.IdentityFailure(f))
	}
	for _, f := range s.UntrustedFields() {
		m.Untrusted = append(m.Untrusted, metrics.UntrustedField(f))
	}
	return m
}

// keysChanged is how often the file of keys is looked at.
const keysChanged = 5 * time.Second

// watchKeys follows the file of keys until ctx ends.
func (s *callers) watchKeys(ctx context.Context) {
	if s.keys != nil {
		s.keys.Watch(ctx, keysChanged, s.logFailure)
	}
}

// reloadKeys reads the file of keys now.
func (s *callers) reloadKeys() {
	if s.keys == nil {
		return
	}
	if err := s.keys.Reload(); err != nil {
		s.logFailure(err)
		return
	}
	s.warnOfKeys()
}

func (s *callers) logFailure(err error) {
	if err != nil {
		s.log.Error("API key file reload failed; the last good one stays in use", "err", err)
	}
}
