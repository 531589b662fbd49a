package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
)

// wordLimits are the limits in words of a configuration: those of --limit, and those of
// routes. Immutable.
type wordLimits struct {
	general []wordLimit
	ofRoute []wordLimit
	layers  []*limits.Layer
}

// wordLimit is one of them.
type wordLimit struct {
	text string
	// route is the name of the route whose requests it is about, empty for all.
	route string
	// lists are the keys of the descriptors that it is about.
	lists [][]string
}

// readWords returns the limits in words, all of which check lets pass.
func readWords(c *Config, check func(*weir.Limit) error) (*wordLimits, error) {
	b, w := words.NewBuilder(c.API.Domain), &wordLimits{}
	for _, text := range c.Limits {
		l, err := words.Parse(text)
		if err == nil {
			err = b.Add(l)
		}
		if err != nil {
			return nil, err
		}
		w.general = append(w.general, wordLimit{text: l.Text, lists: l.KeyLists()})
	}
	err := w.addRoutes(b, c.Routes)
	if err == nil {
		w.layers, err = b.Layers()
	}
	if err != nil {
		return nil, err
	}
	for _, l := range limits.NewSet(w.layers...).Limits() {
		if err := check(l); err != nil {
			return nil, fmt.Errorf("--limit %q: %w", l.Name, err)
		}
	}
	if c.Upstream != "" && len(c.Routes) == 0 && c.Rules == "" && c.Shed == nil && !w.limitForwarded() {
		return nil, errors.New("--upstream: no limit applies to what is forwarded, as the gateway knows no client_id: count by ip or by all")
	}
	return w, nil
}

// all returns the limits, those of --limit first.
func (w *wordLimits) all() []wordLimit { return slices.Concat(w.general, w.ofRoute) }

// texts returns the limits as they were written.
func (w *wordLimits) texts() (texts []string) {
	for _, l := range w.all() {
		texts = append(texts, l.text)
	}
	return texts
}

// limitForwarded reports whether some limit applies to requests that are forwarded.
func (w *wordLimits) limitForwarded() bool {
	return slices.ContainsFunc(w.all(), wordLimit.limitsForwarded)
}

// limitAddresses reports whether some limit applies to a client that is known
// by its address alone.
func (w *wordLimits) limitAddresses() bool {
	return slices.ContainsFunc(w.all(), wordLimit.limitsAddresses)
}

// limitsAddresses reports whether the limit applies to a client that is known by its
// address alone.
func (l wordLimit) limitsAddresses() bool {
	return slices.ContainsFunc(l.lists, func(keys []string) bool { return slices.Equal(keys, []string{words.Address}) })
}

// limitsForwarded reports whether the limit applies to requests that are forwarded, or
// that proxies ask about: they have no clientId.
func (l wordLimit) limitsForwarded() bool {
	return slices.ContainsFunc(l.lists, func(keys []string) bool { return !slices.Contains(keys, words.ClientID) })
}

// isAskedBy reports whether some descriptor of a route meets the limit.
func (l *wordLimit) isAskedBy(r *Route) bool {
	return len(r.Descriptors) == 0 && l.limitsAddresses() || slices.ContainsFunc(r.Descriptors, func(d identity.Descriptor) bool {
		return slices.ContainsFunc(l.lists, func(keys []string) bool { return slices.Equal(d.Keys(), keys) })
	})
}
