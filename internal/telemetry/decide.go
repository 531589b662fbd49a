package telemetry

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
)

// Begin implements [weir.Tracer]: a decision for a request that is followed has a
// span of its own. No key and no value of an entry is told, nor any text of an
// error, which may hold one.
func (t *Telemetry) Begin(ctx context.Context, r *weir.Request) (context.Context, func(weir.Decision, error)) {
	if !follows(ctx) {
		return ctx, nil
	}
	return t.beginSpan(ctx, r)
}

var _ weir.Tracer = (*Telemetry)(nil)

// beginSpan is apart so that its closure costs requests nothing that are not followed.
func (t *Telemetry) beginSpan(ctx context.Context, r *weir.Request) (context.Context, func(weir.Decision, error)) {
	ctx, span := t.tracer.Start(ctx, "ratelimit.decide", trace.WithAttributes(textAttribute("ratelimit.domain", r.Domain)))
	if t.opt.Store != "" {
		span.SetAttributes(attribute.String("ratelimit.store", t.opt.Store))
	}
	return ctx, func(d weir.Decision, err error) {
		if err != nil {
			span.SetAttributes(attribute.String("error.type", "undecided"))
			span.SetStatus(codes.Error, "no decision was made")
		} else {
			span.SetAttributes(t.attributes(r, d)...)
		}
		span.End()
	}
}

// attributes tells a decision.
func (t *Telemetry) attributes(r *weir.Request, d weir.Decision) []attribute.KeyValue {
	out := append(make([]attribute.KeyValue, 0, 10),
		attribute.String("ratelimit.decision", outcome(r, d).String()),
		attribute.Int("ratelimit.limits", len(r.Ops())))
	if r.Verb == weir.Peek {
		out = append(out, attribute.Bool("ratelimit.peek", true))
	}
	if d.Limit == nil {
		return out
	}
	l := d.Limit
	for i := range r.Ops() {
		// A limit may speak through another that stands for it while the store is away.
		if o := &r.Ops()[i]; o.Decision.Limit == d.Limit {
			out = append(out, attribute.Int64("ratelimit.cost", o.Cost))
			if o.Limit != nil {
				l = o.Limit
			}
			break
		}
	}
	out = append(out, textAttribute("ratelimit.limit", l.Name), attribute.Int64("ratelimit.remaining", d.Remaining))
	if s, ok := t.names.findRef(l); ok {
		out = append(out, textAttribute("ratelimit.rule", s.Rule))
	}
	if d.RetryAfter > 0 {
		out = append(out, attribute.Float64("ratelimit.retry_after", d.RetryAfter.Seconds()))
	}
	if d.Degraded() {
		out = append(out, attribute.Bool("ratelimit.degraded", true))
	}
	return out
}

// textAttribute is an attribute whose value somebody has written. A span with other than
// UTF-8 cannot be sent, nor can those that would go with it.
func textAttribute(key, s string) attribute.KeyValue {
	const most = 256
	return attribute.String(key, strings.ToValidUTF8(s[:min(len(s), most)], "\uFFFD"))
}

// outcome says what became of a request, in the words of weir_decisions_total.
func outcome(r *weir.Request, d weir.Decision) weir.Outcome {
	switch {
	case !d.Allowed():
		return weir.Refused
	case r.Delay() > 0:
		return weir.Delayed
	case r.Soft():
		return weir.SoftAllowed
	case r.Borrowed():
		return weir.Borrowed
	}
	for i := range r.Ops() {
		if o := &r.Ops()[i]; o.Role == weir.Shadow && !o.Decision.Allowed() {
			return weir.ShadowRefused
		}
	}
	return weir.Allowed
}

// StoreCall begins a span for a call of the shared store that decides so many limits,
// and returns what ends it, with the kind of its failure, empty for none. Nil means
// that the call is not followed.
func (t *Telemetry) StoreCall(ctx context.Context, limits int) (context.Context, func(failure string)) {
	if !follows(ctx) {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, "ratelimit.store "+t.opt.Store, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", t.opt.Store), attribute.Int("ratelimit.limits", limits)))
	return ctx, func(failure string) {
		if failure != "" {
			span.SetAttributes(attribute.String("error.type", failure))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// names finds the words for a limit. Safe for concurrent use.
type names struct {
	list  func() []limits.Ref
	known atomic.Pointer[map[*weir.Limit]limits.Ref]
	mu    sync.Mutex
	made  time.Time
}

// remake is how often the words are looked up anew for a limit that is not known:
// rules may have been reloaded, or it may be one that nobody lists.
const remake = time.Second

func (n *names) findRef(l *weir.Limit) (limits.Ref, bool) {
	if n.list == nil {
		return limits.Ref{}, false
	}
	if m := n.known.Load(); m != nil {
		if s, ok := (*m)[l]; ok {
			return s, true
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); now.Sub(n.made) >= remake {
		list := n.list()
		m := make(map[*weir.Limit]limits.Ref, len(list))
		for _, s := range list {
			m[s.Limit] = s
		}
		n.known.Store(&m)
		n.made = now
	}
	s, ok := (*n.known.Load())[l]
	return s, ok
}
