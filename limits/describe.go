package limits

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/bytesize"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/params"
)

// String returns the limit on one line: what is counted, how, and what a breach
// does.
func (l *Limit) String() string {
	if l.Unlimited {
		s := "unlimited"
		if len(l.Replaces) > 0 {
			s += " replaces " + strings.Join(l.Replaces, ", ")
		}
		return s
	}
	w := l.Limit
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	if l.Denies {
		printf("0 refuses everything")
		if w.Shadow {
			printf(", shadow")
		}
	} else {
		b.WriteString(Summary(w))
	}
	if l.Cost > 0 {
		printf(", cost %d", l.Cost)
	}
	b.WriteString(describeSettlement(w.Adjustment))
	if l.Priority > 0 {
		printf(", priority %d", l.Priority)
	}
	if l.Node {
		printf(", on each node alone")
	} else {
		b.WriteString(describeConsistency(&w.Consistency))
	}
	for _, kv := range []struct{ key, value, usual string }{{"on_store_error", w.Consistency.OnStoreError.String(), params.OnErrorDefault.String()},
		{"on_change", l.OnChange, ""}, {"deny_cache", w.Consistency.DenyCache.String(), params.DenyCacheAuto.String()}} {
		if kv.value != kv.usual {
			printf(", %s %s", kv.key, kv.value)
		}
	}
	if len(l.Replaces) > 0 {
		printf(", replaces %s", strings.Join(l.Replaces, ", "))
	}
	printf(" (%s)", w.Name)
	return b.String()
}

// Summary returns what a limit allows and what a breach of it does, without
// its name: "100/minute token_bucket burst 200, soft to 110".
func Summary(w *weir.Limit) string {
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	count, burst := withoutExcess(w.Count, w.Excess), withoutExcess(w.Burst, w.Excess)
	if w.Algorithm.Traits()&weir.Leases != 0 {
		printf("%d at once, each for %s at most, %s", count, period.FormatTTL(w.Period), w.Algorithm.Name())
	} else {
		printf("%s %s", period.FormatRate(count, w.Period), w.Algorithm.Name())
	}
	if burst != count {
		printf(" burst %d", burst)
	}
	printf("%s", paramsOf(w))
	switch {
	case w.Excess > 0:
		printf(", soft +%d%%", w.Excess)
	case w.Pool != nil:
		printf(", elastic from %s of %s", w.Pool.Name, Summary(w.Pool))
		if w.Ceiling > 0 {
			printf(" up to %d", w.Ceiling)
		}
	}
	if w.Shadow {
		printf(", shadow")
	}
	if w.Rollout > 0 && w.Rollout < 100 {
		printf(", for %d%% of keys", w.Rollout)
	}
	if w.Penalize {
		printf(", counts refusals")
	}
	if w.Hidden {
		printf(", hidden from clients")
	}
	if w.Ban != nil {
		printf(", ban after %d refusals for %s", w.Ban.Count, period.Format(w.Ban.Period))
	}
	for p, units := range w.Headroom {
		if units > 0 {
			printf(", %d kept from priority %d", units, p)
		}
	}
	return b.String()
}

// withoutExcess undoes what Limit.Compile adds to a soft limit, which is itself the hard
// threshold.
func withoutExcess(n, percent int64) int64 {
	if n > weir.MaxCost/200 {
		return n / (100 + percent) * 100
	}
	return (n*100 + 99 + percent) / (100 + percent)
}

// paramsOf returns the parameters that single algorithms know.
func paramsOf(w *weir.Limit) string {
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	switch w.Anchor {
	case params.AnchorFirst:
		printf(" from the first request")
	case params.AnchorCalendar:
		printf(" by the calendar of %s", w.Location)
	}
	if w.Phase > 0 {
		printf(" phase %s", period.Format(w.Phase))
	}
	if w.Precision > 0 {
		printf(" precision %d", w.Precision)
	}
	if w.Form != params.Strict {
		printf(" %s", w.Form)
	}
	if w.MaxDelay > 0 {
		printf(" max_delay %s", period.Format(w.MaxDelay))
	}
	if w.Free > 0 {
		printf(" free %d", w.Free)
	}
	return b.String()
}

func describeConsistency(c *params.Consistency) string {
	if c.Mode == params.ConsistencyDefault {
		return ""
	}
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(c.LeaseTTL > 0, "lease_ttl %s", period.Format(c.LeaseTTL))
	add(c.Loose, "burst loose")
	add(c.Share > 0, "share %d", c.Share)
	add(c.MaxOvershoot > 0, "max_overshoot %d", c.MaxOvershoot)
	add(c.SyncInterval > 0, "sync_interval %s", period.Format(c.SyncInterval))
	add(c.Optimistic, "cold optimistic")
	text := ", " + c.Mode.String()
	if parts != nil {
		text += " with " + strings.Join(parts, ", ")
	}
	return text
}

// describeSettlement writes s for a reader: ", counts 401, 403".
func describeSettlement(s *weir.Adjustment) string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	switch {
	case s.Per > 0:
		b.WriteString(", counts bytes of the answer")
		if s.Per > 1 {
			fmt.Fprintf(&b, " by %s", bytesize.Format(s.Per))
		}
	case s.Header != "":
		fmt.Fprintf(&b, ", counts by the answer's %s", s.Header)
	}
	if !s.CountOn.Empty() {
		b.WriteString(", counts " + describeCodes(&s.CountOn) + " alone")
	}
	if !s.RefundOn.Empty() {
		b.WriteString(", gives back on " + describeCodes(&s.RefundOn))
	}
	return b.String()
}
