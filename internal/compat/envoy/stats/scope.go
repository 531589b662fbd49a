package stats

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Scope names statistics: its own name, a dot, the statistic's name, and
// after those the tags, each as ".__key=value", sorted by key. That is how they
// are told to a Sink.
type Scope struct {
	store *Store
	name  string
	tags  map[string]string
}

// Scope returns a scope without tags.
func (s *Store) Scope(name string) *Scope { return &Scope{store: s, name: name} }

// TopScope returns a scope with the store's own tags. Tags whose names other
// software gives a meaning to (az, host, region and such) are counted in
// "reserved_tag", once for each scope made.
func (s *Store) TopScope(name string) *Scope {
	for k := range s.tags {
		if reserved[k] {
			s.counter("reserved_tag").Inc()
		}
	}
	return &Scope{store: s, name: name, tags: s.tags}
}

var reserved = map[string]bool{
	"asg": true, "az": true, "backend": true, "canary": true, "envoyservice": true,
	"facet": true, "host": true, "period": true, "project": true, "region": true,
	"shard": true, "source": true, "window": true,
}

// Scope returns a scope below this one, with the same tags.
func (sc *Scope) Scope(name string) *Scope {
	return &Scope{store: sc.store, name: sc.name + "." + name, tags: sc.tags}
}

// Generate has f called before every flush, as Store.Generate.
func (sc *Scope) Generate(f func()) { sc.store.Generate(f) }

// Counter returns the counter of that name, the same one every time.
func (sc *Scope) Counter(name string) *Counter { return sc.store.counter(sc.fullName(name, nil)) }

// CounterTagged returns the counter of that name and these tags beside the
// scope's own.
func (sc *Scope) CounterTagged(name string, tags map[string]string) *Counter {
	return sc.store.counter(sc.fullName(name, tags))
}

// Gauge returns the gauge of that name, the same one every time.
func (sc *Scope) Gauge(name string) *Gauge { return sc.store.gauge(sc.fullName(name, nil)) }

// Timer returns the timer of that name, the same one every time.
func (sc *Scope) Timer(name string) *Timer { return sc.store.timer(sc.fullName(name, nil)) }

func (sc *Scope) fullName(name string, more map[string]string) string {
	return sc.name + "." + name + sc.suffix(more)
}

// suffix writes the tags. Tags without a name or a value are left out; where
// more has a name that the scope has too, more's value counts.
func (sc *Scope) suffix(more map[string]string) string {
	tags := map[string]string{}
	for _, set := range []map[string]string{sc.tags, more} {
		for k, v := range set {
			if k != "" && v != "" {
				tags[k] = v
			}
		}
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		b.WriteString(".__" + k + "=" + tagValue.Replace(tags[k]))
	}
	return b.String()
}

var (
	tagValue = strings.NewReplacer(".", "_", ":", "_", "|", "_")
	statName = strings.NewReplacer(":", "_", "|", "_")
	ipv4     = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)
)

// Sanitize returns a metric key that is safe in a statsd line: ':' and '|'
// become '_', and so do the dots of what looks like an IPv4 address.
func Sanitize(key string) string {
	key = statName.Replace(key)
	return ipv4.ReplaceAllStringFunc(key, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}
