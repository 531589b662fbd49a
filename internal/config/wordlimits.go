package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
)

// WordLimits are the limits in words of a configuration: those of --limit, and those of
// routes. Immutable.
type WordLimits struct {
	General []WordLimit
	OfRoute []WordLimit
	Layers  []*limits.Layer
}

// WordLimit is one of them.
type WordLimit struct {
	Text string
	// Route is the name of the route whose requests it is about, empty for all.
	Route string
	// Lists are the keys of the descriptors that it is about.
	Lists [][]string
}

// ReadWords returns the limits in words, all of which check lets pass.
func ReadWords(c *Config, check func(*weir.Limit) error) (*WordLimits, error) {
	b, w := words.NewBuilder(c.API.Domain), &WordLimits{}
	for _, text := range c.Limits {
		l, err := words.Parse(text)
		if err == nil {
			err = b.Add(l)
		}
		if err != nil {
			return nil, err
		}
		w.General = append(w.General, WordLimit{Text: l.Text, Lists: l.KeyLists()})
	}
	err := w.addRoutes(b, c.Routes)
	if err == nil {
		w.Layers, err = b.Layers()
	}
	if err != nil {
		return nil, err
	}
	for _, l := range limits.NewSet(w.Layers...).Limits() {
		if err := check(l); err != nil {
			return nil, fmt.Errorf("--limit %q: %w", l.Name, err)
		}
	}
	if c.Upstream != "" && len(c.Routes) == 0 && c.Rules == "" && c.Shed == nil && !w.LimitForwarded() {
		return nil, errors.New("--upstream: no limit applies to what is forwarded, as the gateway knows no client_id: count by ip or by all")
	}
	return w, nil
}

// All returns the limits, those of --limit first.
func (w *WordLimits) All() []WordLimit { return slices.Concat(w.General, w.OfRoute) }

// Texts returns the limits as they were written.
func (w *WordLimits) Texts() (texts []string) {
	for _, l := range w.All() {
		texts = append(texts, l.Text)
	}
	return texts
}

// LimitForwarded reports whether some limit applies to requests that are forwarded.
func (w *WordLimits) LimitForwarded() bool {
	return slices.ContainsFunc(w.All(), WordLimit.LimitsForwarded)
}

// LimitAddresses reports whether some limit applies to a client that is known
// by its address alone.
func (w *WordLimits) LimitAddresses() bool {
	return slices.ContainsFunc(w.All(), WordLimit.limitsAddresses)
}

// limitsAddresses reports whether the limit applies to a client that is known by its
// address alone.
func (l WordLimit) limitsAddresses() bool {
	return slices.ContainsFunc(l.Lists, func(keys []string) bool { return slices.Equal(keys, []string{words.Address}) })
}

// LimitsForwarded reports whether the limit applies to requests that are forwarded, or
// that proxies ask about: they have no clientId.
func (l WordLimit) LimitsForwarded() bool {
	return slices.ContainsFunc(l.Lists, func(keys []string) bool { return !slices.Contains(keys, words.ClientID) })
}

// IsAskedBy reports whether some descriptor of a route meets the limit.
func (l *WordLimit) IsAskedBy(r *Route) bool {
	return len(r.Descriptors) == 0 && l.limitsAddresses() || slices.ContainsFunc(r.Descriptors, func(d identity.Descriptor) bool {
		return slices.ContainsFunc(l.Lists, func(keys []string) bool { return slices.Equal(d.Keys(), keys) })
	})
}
