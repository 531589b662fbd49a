package ratelimit

import (
	"context"
	"log/slog"
	"sync"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

// A ruleSource gives each set of rules to the service, now and whenever they change, until ctx
// ends.
type ruleSource func(ctx context.Context, r *Rules)

// Rules takes sets of rules for a service, all of a set or nothing, and says so
// in the log and in the health. It is for one ruleSource, one call at a time.
type Rules struct {
	service *envoy.Service
	merge   bool
	health  *health
	log     *slog.Logger
	once    sync.Once
	first   chan struct{}
	// refused is why the last resources were. A management server may send them
	// again and again.
	refused string
}

func newRules(service *envoy.Service, s *settings.Settings, h *health, log *slog.Logger) *Rules {
	return &Rules{service: service, merge: s.MergeDomainConfig, health: h, log: log, first: make(chan struct{})}
}

// First is closed when a set has been taken or refused.
func (r *Rules) First() <-chan struct{} { return r.first }

// TakeFiles takes the rules of files. An error means that the rules before stay.
func (r *Rules) TakeFiles(files []envoy.File) error {
	return r.countLoad(r.service.LoadFiles(files, r.merge))
}

// Resources takes the rules of xDS resources. An error means that the rules
// before stay.
func (r *Rules) Resources(resources []*rlsconfv3.RateLimitConfig) error {
	err := r.service.LoadXDS(resources, r.merge)
	if err != nil && err.Error() == r.refused {
		return err
	}
	r.refused = ""
	if err != nil {
		r.refused = err.Error()
	}
	return r.countLoad(err)
}

func (r *Rules) countLoad(err error) error {
	if err != nil {
		r.log.Error("Error loading new configuration: " + err.Error())
	} else {
		domains, _ := r.service.LoadedDomains()
		r.health.setComponent(configHealth, domains > 0)
		r.log.Info("Successfully loaded new configuration", "domains", domains)
	}
	r.once.Do(func() { close(r.first) })
	return err
}
