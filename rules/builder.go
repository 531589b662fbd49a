package rules

import "github.com/weirlimit/weir/limits"

// builder makes one limit of what a file says about it.
type builder struct {
	*compiler
	spec   *limitSpec
	layers []layer
	// s is what holds for the limit, from all layers.
	s     settings
	rule  *limits.Rule
	label string
	// isListed: the limit is one of a list. pool: it is a pool.
	isListed, pool bool
	faults         int
}

// builder returns the builder of a limit of the descriptor d, which is nil for
// the limit of a pool.
func (c *compiler) builder(spec *limitSpec, d *descriptorSpec) *builder {
	b := &builder{compiler: c, spec: spec}
	b.layers = append(b.layers, layer{spec.Node, &spec.settings, true})
	if d != nil {
		single := len(d.Limits) == 0 && (spec == d.Limit || spec == d.RateLimit)
		b.layers = append(b.layers, layer{d.Node, &d.settings, single})
		for _, s := range []*limitSpec{d.RateLimit, d.Limit} {
			if s != nil && s != spec {
				b.layers = append(b.layers, layer{s.Node, &s.settings, false})
			}
		}
	}
	if c.defaults != nil {
		b.layers = append(b.layers, layer{c.defaults.Node, &c.defaults.settings, false})
	}
	b.s.fillFromLayers(b.layers)
	return b
}

// addSettingFault reports a fault of the setting called name.
func (b *builder) addSettingFault(name, hint, format string, args ...any) {
	b.faults++
	n, _ := findSetting(b.layers, name)
	if n == nil {
		n = b.spec.Node
	}
	b.addFault(n, b.path, hint, format, args...)
}

// forbidSettings reports those of the settings that are given for this very limit.
func (b *builder) forbidSettings(settings []string, hint, format string) {
	for _, key := range settings {
		if n, own := findSetting(b.layers, key); n != nil && own {
			b.addSettingFault(key, hint, format, key)
		}
	}
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// unitsOf returns the share of n, rounded up, or the units that it is.
func (s share) unitsOf(n int64) int64 {
	if !s.isPercent {
		return s.units
	}
	// n/100*p + rest, so that nothing overflows.
	return n/100*s.percent + (n%100*s.percent+99)/100
}
