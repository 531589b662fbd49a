package stats

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/DataDog/datadog-go/v5/statsd"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

// DogStatsd sends statistics to dogstatsd, with tags as it has them, by the
// names that mogrifiers give.
type DogStatsd struct {
	client     *statsd.Client
	mogrifiers []mogrifier
}

// mogrifier is a [settings.Mogrifier] whose pattern is compiled.
type mogrifier struct {
	settings.Mogrifier
	pattern *regexp.Regexp
}

// NewDogStatsd sends to host:port over UDP. Of the mogrifiers the first whose
// pattern matches counts.
func NewDogStatsd(addr string, mogrifiers []settings.Mogrifier) (*DogStatsd, error) {
	d := &DogStatsd{}
	for _, m := range mogrifiers {
		re, err := regexp.Compile(m.Pattern)
		if err != nil {
			return nil, fmt.Errorf("mogrifier pattern %q: %w", m.Pattern, err)
		}
		d.mogrifiers = append(d.mogrifiers, mogrifier{m, re})
	}
	var err error
	if d.client, err = statsd.New(addr, statsd.WithoutClientSideAggregation()); err != nil {
		return nil, fmt.Errorf("dogstatsd %s: %w", addr, err)
	}
	return d, nil
}

// Counter implements Sink. The client's errors tell of a full queue, which it
// counts in statistics of its own.
func (d *DogStatsd) Counter(name string, delta uint64) {
	name, tags := d.mogrify(name)
	_ = d.client.Count(name, int64(delta), tags, 1)
}

// Gauge implements Sink.
func (d *DogStatsd) Gauge(name string, value uint64) {
	name, tags := d.mogrify(name)
	_ = d.client.Gauge(name, float64(value), tags, 1)
}

// Timer implements Sink.
func (d *DogStatsd) Timer(name string, ms int64, n uint64) {
	name, tags := d.mogrify(name)
	for range n {
		_ = d.client.Timing(name, time.Duration(ms)*time.Millisecond, tags, 1)
	}
}

// Flush implements Sink; the client sends by itself.
func (d *DogStatsd) Flush() {}

// Close sends what waits and ends the client.
func (d *DogStatsd) Close() error { return d.client.Close() }

// mogrify takes the tags off a full name and adds those of a mogrifier.
func (d *DogStatsd) mogrify(full string) (name string, tags []string) {
	name, rest, ok := strings.Cut(full, ".__")
	if ok {
		for item := range strings.SplitSeq(rest, ".__") {
			if k, v, ok := strings.Cut(item, "="); ok {
				tags = append(tags, k+":"+v)
			}
		}
	}
	for _, m := range d.mogrifiers {
		caught := m.pattern.FindStringSubmatch(name)
		if caught == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(m.Tags)) {
			tags = append(tags, key+":"+expandGroups(m.Tags[key], caught))
		}
		return expandGroups(m.Rename, caught), tags
	}
	return name, tags
}

var dollar = regexp.MustCompile(`\$\d+`)

// expandGroups puts what was caught in the place of $0, $1 and so on; a number beyond
// the groups stays as it is.
func expandGroups(text string, caught []string) string {
	return dollar.ReplaceAllStringFunc(text, func(s string) string {
		if n, err := strconv.Atoi(s[1:]); err == nil && n < len(caught) {
			return caught[n]
		}
		return s
	})
}
