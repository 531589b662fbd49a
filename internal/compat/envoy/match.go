package envoy

import (
	"strconv"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// match is what was found for one descriptor of a request.
type match struct {
	// rule is nil if nothing limits the descriptor. An override has a rule of
	// its own.
	rule *rule
	// stats counts for the rule, or for the values that it met.
	stats *stats.RateLimit
	// from and to bound the counter's name in matcher.keys.
	from, to int
	// hits is what the descriptor costs, back that it gives back.
	hits uint64
	back bool
	// unlimited: the rule says that there is no limit. The match has none then.
	unlimited bool
	// cached: the local cache knows that the limit is exceeded.
	cached bool
	// alone: the counters say that other limits of the request are not to count.
	alone bool
	// count is where the counter stands afterwards.
	count uint64
}

// matcher finds rules for the descriptors of a request.
type matcher struct {
	stats  *stats.Store
	domain *domain
	prefix string
	ratio  float32
	// now is in seconds since the Unix epoch.
	now int64
	// word is key_value of the entry at hand, metric the key of the statistics.
	word, metric []byte
	// counted are the values that a counter is named by.
	counted []string
	// keys holds the names of counters.
	keys []byte
}

// fillMatch fills m with what limits d. There is no way back: once a node has taken an
// entry, only those beneath it can take the next.
func (f *matcher) fillMatch(m *match, d *commonv3.RateLimitDescriptor) error {
	f.counted = f.counted[:0]
	if d.GetLimit() != nil {
		return f.override(m, d)
	}
	l, last := &f.domain.root, len(d.Entries)-1
	f.metric = append(f.metric[:0], f.domain.name...)
	// renamed: the statistics have another name than the rule.
	renamed, shared := false, false
	for i, e := range d.Entries {
		f.word = append(append(append(f.word[:0], e.Key...), '_'), e.Value...)
		n, wild := l.findNode(f.word)
		bare := n == nil
		if bare {
			n = l.nodes[e.Key]
		}
		if n == nil || i == last && n.rule == nil {
			m.rule = nil
			return nil
		}
		// value is what the statistics show, counted what names the counter.
		value, counted := e.Value, e.Value
		switch {
		case wild:
			if n.share || !n.valueToMetric {
				value = pattern(n.word, e.Key)
			}
			if n.share {
				counted, shared = value, true
			}
		case bare && !n.valueToMetric:
			value = ""
		}
		f.counted = append(f.counted, counted)
		from := len(f.metric)
		f.metric = append(append(f.metric, '.'), e.Key...)
		if value != "" {
			f.metric = append(append(f.metric, '_'), value...)
		}
		renamed = renamed || aliasBytes(f.metric[from+1:]) != n.word
		m.rule, l = n.rule, &n.kids
	}
	switch {
	case m.rule == nil || m.rule.unlimited: // There are no entries; nothing is counted.
		return nil
	case m.rule.detailed:
		f.makeDetailedName(d, shared)
		m.stats = f.stats.Dynamic(f.domain.name, f.metric)
	case renamed:
		m.stats = f.stats.Dynamic(f.domain.name, f.metric)
	default:
		m.stats = m.rule.stats
	}
	f.appendCounterName(m, d)
	return nil
}

// pattern returns the part of a node's word that stands for the value.
func pattern(word, key string) string {
	if len(word) > len(key) && word[len(key)] == '_' && word[:len(key)] == key {
		return word[len(key)+1:]
	}
	return word
}

// makeDetailedName makes the name of the statistics of all that the descriptor says. Where
// values share a counter, their pattern is named, and empty values are not.
func (f *matcher) makeDetailedName(d *commonv3.RateLimitDescriptor, shared bool) {
	f.metric = append(f.metric[:0], f.domain.name...)
	for i, e := range d.Entries {
		f.metric = append(append(f.metric, '.'), e.Key...)
		if value := f.counted[i]; value != "" || !shared {
			f.metric = append(append(f.metric, '_'), value...)
		}
	}
}

// override fills m with the limit that the descriptor brings along. It counts
// under the name that all its values make.
func (f *matcher) override(m *match, d *commonv3.RateLimitDescriptor) error {
	o := d.Limit
	unit, times := int32(o.Unit), uint32(1)
	if o.UnitMultiplier != nil {
		times = o.UnitMultiplier.Value
	}
	period := periodOf(unit)
	switch {
	case period == 0:
		return status.Errorf(codes.InvalidArgument, "limit override: unknown unit %s: set SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR",
			rlsv3.RateLimitResponse_RateLimit_Unit(unit))
	case times == 0:
		return status.Error(codes.InvalidArgument, "limit override: unit_multiplier is 0: set 1 or more, or leave it out")
	}
	m.rule = &rule{
		limit: &rlsv3.RateLimitResponse_RateLimit{
			RequestsPerUnit: o.RequestsPerUnit, Unit: rlsv3.RateLimitResponse_RateLimit_Unit(unit),
			UnitMultiplier: o.UnitMultiplier,
		},
		period: period * int64(times), times: times,
		near: nearThreshold(o.RequestsPerUnit, f.ratio),
	}
	f.metric = append(append(f.metric[:0], f.domain.name...), '.')
	from := len(f.metric)
	for _, e := range d.Entries {
		if len(f.metric) > from {
			f.metric = append(f.metric, '.')
		}
		f.metric = append(f.metric, e.Key...)
		if e.Value != "" {
			f.metric = append(append(f.metric, '_'), e.Value...)
		}
		f.counted = append(f.counted, e.Value)
	}
	m.stats = f.stats.Dynamic(f.domain.name, f.metric)
	f.appendCounterName(m, d)
	return nil
}

// appendCounterName appends the name of the counter to the keys: prefix, domain, keys and
// values, and the beginning of the window. All its parts end with _.
func (f *matcher) appendCounterName(m *match, d *commonv3.RateLimitDescriptor) {
	m.from = len(f.keys)
	k := append(append(append(f.keys, f.prefix...), f.domain.name...), '_')
	for i, e := range d.Entries {
		k = append(append(append(append(k, e.Key...), '_'), f.counted[i]...), '_')
	}
	k = strconv.AppendInt(k, f.now-f.now%m.rule.period, 10)
	if m.rule.times > 1 {
		// Else windows of different lengths would share counters.
		k = strconv.AppendUint(append(k, 'x'), uint64(m.rule.times), 10)
	}
	f.keys, m.to = k, len(k)
}
