package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/rules"
)

// overrides changes what the rules say of a key: bans, passes and other numbers.
type overrides struct {
	keys      *keys
	overlay   *overlay.Overlay
	operators *operators
}

func (o *overrides) routes() routes {
	return routes{
		"/v1/admin/ban":      o.keys.answerAfter(mayReason|maySeconds|mayDomain, o.ban),
		"/v1/admin/allow":    o.keys.answerAfter(mayReason|maySeconds, o.allow),
		"/v1/admin/override": o.keys.answerAfter(mayReason|mayRate, o.override),
	}
}

// findTarget is the key that q means, by the rules beneath the overlay.
func (o *overrides) findTarget(q *query) (overlay.Target, error) {
	req := q.reqs[0]
	if q.wholeDomain {
		t := overlay.DomainTarget(req.Domain, req.Descriptors[0].Entries[0])
		t.Here = q.here
		return t, nil
	}
	ops, fault := chooseOps(o.overlay.Beneath().Match(nil, req), q.limit)
	if fault != nil {
		return overlay.Target{}, o.keys.explain(fault, req)
	}
	// An elastic limit's own share stands behind its ceiling, if there is one.
	at := max(slices.IndexFunc(ops, func(op weir.Op) bool { return op.Role == weir.Own }), 0)
	if ops[at].Role == weir.Pool {
		return overlay.Target{}, &inputError{"is a pool, which many keys share: name a limit that borrows from it", "#/limit"}
	}
	return overlay.Target{Domain: req.Domain, Entries: req.Descriptors[0].Entries, Limit: ops[at].Limit, Key: ops[at].Key, Here: q.here}, nil
}

// liftEntry takes back what there is of a kind for the key.
func (o *overrides) liftEntry(r *http.Request, q *query, kind overlay.Kind) error {
	t, err := o.findTarget(q)
	if err != nil {
		return err
	}
	who := o.operators.author(r, q.reason)
	if _, err = o.overlay.Keys.LiftEntry(r.Context(), t, kind, who); err != nil || q.typed == nil {
		return err
	}
	// An earlier version kept the entries as they were typed.
	q.reqs[0].Descriptors[0].Entries, q.typed = q.typed, q.reqs[0].Descriptors[0].Entries
	if t, err = o.findTarget(q); err == nil {
		_, err = o.overlay.Keys.LiftEntry(r.Context(), t, kind, who)
	}
	q.reqs[0].Descriptors[0].Entries, q.typed = q.typed, q.reqs[0].Descriptors[0].Entries
	return err
}

// changeEntry makes what there is of a kind for the key what do makes it, or where isLift takes it
// back.
func (o *overrides) changeEntry(r *http.Request, q *query, kind overlay.Kind, isLift bool, do func(t overlay.Target, who overlay.Author) error) error {
	if isLift {
		return o.liftEntry(r, q, kind)
	}
	t, err := o.findTarget(q)
	if err != nil {
		return err
	}
	if err := do(t, o.operators.author(r, q.reason)); err != nil {
		return err
	}
	for _, e := range append(o.overlay.Keys.EntriesOf(t.Limit, t.Key), o.overlay.Keys.OfClient(q.reqs[0])...) {
		if e.Kind == kind {
			q.yaml = e.Snippet()
		}
	}
	return nil
}

// ban refuses the key for a time, or lifts its ban.
func (o *overrides) ban(r *http.Request, q *query) error {
	if q.wholeDomain {
		return o.banDomain(r, q)
	}
	return o.changeEntry(r, q, overlay.Ban, q.isEnd(), func(t overlay.Target, who overlay.Author) error {
		q.notCovered = o.keys.coverage.ofKey(t)
		return o.overlay.Keys.Set(r.Context(), t, overlay.Ban, q.duration(), who)
	})
}

// banDomain refuses all requests of the domain with the entry for a time, or
// lifts its ban.
func (o *overrides) banDomain(r *http.Request, q *query) error {
	req := q.reqs[0]
	es := req.Descriptors[0].Entries
	switch {
	case len(es) != 1:
		return &inputError{"a ban over the domain is by one entry: leave the others out", "#/descriptors"}
	case q.limit != "" && q.client == "":
		return &inputError{"a ban over the domain is of every limit: leave limit out", "#/limit"}
	}
	return o.changeEntry(r, q, overlay.BanDomain, q.isEnd(), func(t overlay.Target, who overlay.Author) error {
		q.notCovered = o.keys.coverage.ofDomain(req.Domain, es[0])
		return o.overlay.Keys.Set(r.Context(), t, overlay.BanDomain, q.duration(), who)
	})
}

// allow lets the key pass for a time, or limits it again.
func (o *overrides) allow(r *http.Request, q *query) error {
	return o.changeEntry(r, q, overlay.Allow, q.isEnd(), func(t overlay.Target, who overlay.Author) error {
		return o.overlay.Keys.Set(r.Context(), t, overlay.Allow, q.duration(), who)
	})
}

// isEnd reports whether a ban or a free pass is taken back; clients of earlier versions
// ask for none of its seconds.
func (q *query) isEnd() bool { return q.end || q.seconds == 0 }

// noRate takes an override back, for clients of earlier versions.
const noRate = "none"

// override gives the key other numbers, or takes them back.
func (o *overrides) override(r *http.Request, q *query) error {
	if q.rate == noRate && (q.burst != 0 || q.seconds != 0) {
		return &inputError{"none goes alone: leave burst and seconds out", "#/rate"}
	}
	return o.changeEntry(r, q, overlay.Override, q.end || q.rate == noRate, func(t overlay.Target, who overlay.Author) error {
		n, err := readNumbers(q, t.Limit)
		if err != nil {
			return err
		}
		return o.overlay.Keys.Override(r.Context(), t, n, q.duration(), who)
	})
}

// readNumbers reads the rate and burst of q, which are to be those of l for a key.
func readNumbers(q *query, l *weir.Limit) (overlay.Numbers, error) {
	rate, err := period.ParseRate(q.rate)
	isLease := l.Traits()&weir.Leases != 0
	takers := rules.Takers("burst")
	switch {
	case err != nil:
		err = &inputError{err.Error(), "#/rate"}
	case rate.Count == 0:
		err = &inputError{"a limit of 0 refuses everything: ban the key instead", "#/rate"}
	case isLease && rate.Period != 0:
		err = &inputError{"is for a concurrency limit: write how many at once, such as 20", "#/rate"}
	case !isLease && rate.Period == 0:
		err = &inputError{"does not say per what: write it like " + q.rate + "/minute", "#/rate"}
	case q.burst > 0 && !slices.Contains(takers, l.Algorithm.Name()):
		err = &inputError{"is for " + strings.Join(takers, ", ") + ", not for " + l.Algorithm.Name(), "#/burst"}
	}
	return overlay.Numbers{Count: rate.Count, Period: rate.Period, Burst: q.burst}, err
}
