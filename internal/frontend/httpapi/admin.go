package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/rules"
)

// Keyring is a store whose keys can be looked at and forgotten one by one; the
// memory store is one.
type Keyring interface {
	// Inspect returns a copy of what is kept for a key, and whether anything is.
	Inspect(ctx context.Context, key string, l *weir.Limit) (cells []int64, found bool, err error)
	// Forget makes a key as if it had never been seen, and reports whether it
	// was.
	Forget(ctx context.Context, key string, l *weir.Limit) (found bool, err error)
}

// action does something to the limit that an operator chose, for one key.
type action func(r *http.Request, q *query) error

// keyed answers a path that is about one key: the limits that the one
// descriptor meets, or the one of them that is named. do, if there is one,
// happens first. The answer is how the key stands afterwards.
func (a *API) keyed(s shape, do action) http.HandlerFunc {
	return a.operator(a.reads(maxSmallBody, func(c *call, w http.ResponseWriter, r *http.Request) error {
		if err := a.readKeyed(c, s); err != nil {
			return err
		}
		q := &c.query
		if do != nil {
			if err := do(r, q); err != nil {
				return err
			}
		}
		return a.sendKeys(c, w, r, do != nil)
	}))
}

// readKeyed reads a body that is about one key.
func (a *API) readKeyed(c *call, s shape) error {
	q := &c.query
	if a.readQuery(c, s|mayName|mayClient); c.reader.err == nil && q.client != "" {
		c.reader.err = a.identify(c)
	}
	if c.reader.err == nil {
		c.reader.err = oneKey(q, s)
	}
	return c.reader.fault()
}

// sendKeys sends how the key of c stands; changed is set after an action.
func (a *API) sendKeys(c *call, w http.ResponseWriter, r *http.Request, changed bool) error {
	q := &c.query
	req := q.reqs[0]
	if q.limit != "" && !changed && q.client == "" {
		if _, fault := choose(a.limiter.Match(req), q.limit); fault != nil {
			return fault
		}
	}
	d, err := a.look(r.Context(), req)
	if err != nil {
		return err
	}
	if c.out, err = a.appendKeys(r.Context(), append(c.out[:0], `{"allowed":`...), req, d); err != nil {
		return err
	}
	if changed {
		c.out = append(appendText(append(c.out[:len(c.out)-1], `,"yaml":`...), q.yaml), '}')
	}
	if len(q.notCovered) == 0 {
		q.warnings = a.unsent(req.Descriptors[0].Entries, q.wholeDomain)
	}
	if c.out, err = q.appendMore(c.out); err != nil {
		return err
	}
	sendJSON(w, c.out)
	return nil
}

// look decides req without spending. Unlike a check it asks the limits of a
// banned key too.
func (a *API) look(ctx context.Context, req *weir.Request) (weir.Decision, error) {
	req.Verb = weir.Peek
	rest, bans := overlay.Split(a.limiter.Match(req))
	if len(bans) == 0 || len(rest) == 0 || slices.ContainsFunc(rest, func(o weir.Op) bool { return o.Role == weir.Deny }) {
		return a.limiter.Decide(ctx, req)
	}
	d, err := a.limiter.Apply(ctx, rest)
	if err != nil {
		return d, err
	}
	for i := range bans {
		if b := bans[i].Decision; d.Allowed() || d.RetryAfter != weir.Never && b.RetryAfter > d.RetryAfter {
			d = b
		}
	}
	return d, nil
}

// oneKey reports what keeps q from being about one key.
func oneKey(q *query, s shape) *inputError {
	switch {
	case len(q.reqs[0].Descriptors) != 1:
		return &inputError{"must be one descriptor: one key is meant", "#/descriptors"}
	case s&mayUnits != 0 && q.units == 0:
		return &inputError{"is missing", "#/units"}
	case s&maySeconds != 0 && q.seen&seenSeconds == 0:
		return &inputError{"is missing; 0 takes back what there is", "#/seconds"}
	case s&mayRate != 0 && q.rate == "":
		return &inputError{"is missing: such as 5000/minute, or none to take an override back", "#/rate"}
	}
	return nil
}

// choose returns those of ops that count for the one limit that is meant: the
// limit of the given name, or the only one. What it shares with other keys, a
// pool, is left out unless it is named itself.
func choose(ops []weir.Op, name string) ([]weir.Op, *inputError) {
	var names []string
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny || o.Role == weir.Ban || o.Role == weir.Pool && o.Limit.Name != name {
			continue
		}
		if !slices.Contains(names, o.Limit.Name) {
			names = append(names, o.Limit.Name)
		}
	}
	switch {
	case len(names) == 0:
		return nil, &inputError{"no limit counts for these entries", "#/descriptors"}
	case name == "" && len(names) > 1:
		return nil, &inputError{"is missing; say which limit is meant: " + quoted(names), "#/limit"}
	case name == "":
		name = names[0]
	case !slices.Contains(names, name):
		return nil, &inputError{"is not met by these entries; they meet " + quoted(names), "#/limit"}
	}
	var chosen, lockouts []weir.Op
	for _, o := range ops {
		switch {
		case o.Role == weir.Deny:
		case o.Part == weir.PartBan:
			if o.Of.Name == name && o.Verb != weir.Peek {
				lockouts = append(lockouts, o)
			}
		case o.Limit.Name == name:
			chosen = append(chosen, o)
		}
	}
	return append(chosen, lockouts...), nil
}

func quoted(names []string) string {
	b := make([]byte, 0, 64)
	for i, n := range names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendQuote(b, n)
	}
	return string(b)
}

// reset forgets the key, and lifts its ban.
func (a *API) reset(r *http.Request, q *query) error {
	if a.opt.Keyring == nil {
		return errNoKeyring
	}
	ops, fault := choose(a.limiter.Match(q.reqs[0]), q.limit)
	if fault != nil {
		return fault
	}
	before := a.left(r.Context(), ops)
	var errs []error
	for i := range ops {
		_, err := a.opt.Keyring.Forget(r.Context(), ops[i].Key, ops[i].Limit)
		errs = append(errs, err)
	}
	if a.opt.Overlay != nil && ops[0].Role != weir.Pool {
		errs = append(errs, a.lift(r, q, overlay.Ban))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	q.yaml = "" // of the ban that was lifted
	a.note(r, q, "key reset", overlay.Change{Action: "reset", Limit: ops[0].Limit.Name, Before: before, After: "untouched"})
	return nil
}

// left says how many units ops have left, without spending.
func (a *API) left(ctx context.Context, ops []weir.Op) string {
	var peek []weir.Op
	for _, o := range ops {
		if o.Role != weir.Ban {
			peek = append(peek, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, ID: o.ID, Role: weir.Always, Verb: weir.Peek})
		}
	}
	if len(peek) == 0 {
		return ""
	}
	if _, err := a.limiter.Apply(ctx, peek); err != nil {
		return "" // the change itself meets the error, if it lasts
	}
	return strconv.FormatInt(peek[0].Decision.Remaining, 10) + " left"
}

// note logs what an operator did to a key, and writes it down where that is kept.
func (a *API) note(r *http.Request, q *query, what string, c overlay.Change) {
	c.Domain, c.Entries, c.By, c.Reason = q.reqs[0].Domain, q.reqs[0].Descriptors[0].Entries, a.who(r), q.reason
	if a.opt.Overlay != nil {
		a.opt.Overlay.Note(r.Context(), what, c)
		return
	}
	a.opt.Log.Info(what, "domain", c.Domain, "entries", words(q.reqs[0]), "limit", c.Limit, "before", c.Before, "after", c.After, "by", c.By, "reason", c.Reason)
}

// words are the entries of a request about one key, as a command line writes them.
func words(req *weir.Request) string {
	var b strings.Builder
	for i, e := range req.Descriptors[0].Entries {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(e.Key + "=" + e.Value)
	}
	return b.String()
}

// grant gives units back to the key, up to untouched.
func (a *API) grant(r *http.Request, q *query) error {
	ops, fault := choose(a.limiter.Match(q.reqs[0]), q.limit)
	if fault != nil {
		return fault
	}
	var refunds []weir.Op
	for _, o := range ops {
		switch t := o.Limit.Traits(); {
		case o.Role == weir.Ban:
			continue
		case t&(weir.Sketches|weir.Leases|weir.Shapes) != 0:
			return weir.ErrRefund
		}
		refunds = append(refunds, weir.Op{Key: o.Key, Limit: o.Limit, Cost: q.units, Role: weir.Always, Verb: weir.Refund})
	}
	before := a.left(r.Context(), ops)
	if _, err := a.limiter.Apply(r.Context(), refunds); err != nil {
		return err
	}
	a.note(r, q, "units granted", overlay.Change{Action: "grant", Limit: ops[0].Limit.Name, Before: before,
		After: fmt.Sprintf("%s, after %d were given back", a.left(r.Context(), ops), q.units)})
	return nil
}

// target is the key that q means, by the rules beneath the overlay.
func (a *API) target(q *query) (overlay.Target, error) {
	if a.opt.Overlay == nil {
		return overlay.Target{}, errNoOverlay
	}
	req := q.reqs[0]
	ops, fault := choose(a.opt.Overlay.Beneath().Match(nil, req), q.limit)
	if fault != nil {
		return overlay.Target{}, fault
	}
	// An elastic limit's own share stands behind its ceiling, if there is one.
	at := max(slices.IndexFunc(ops, func(o weir.Op) bool { return o.Role == weir.Own }), 0)
	if ops[at].Role == weir.Pool {
		return overlay.Target{}, &inputError{"is a pool, which many keys share: name a limit that borrows from it", "#/limit"}
	}
	return overlay.Target{Domain: req.Domain, Entries: req.Descriptors[0].Entries, Limit: ops[at].Limit, Key: ops[at].Key}, nil
}

func (a *API) lift(r *http.Request, q *query, kind overlay.Kind) error {
	t, err := a.target(q)
	if err != nil {
		return err
	}
	_, err = a.opt.Overlay.Lift(r.Context(), t, kind, a.author(r, q))
	return err
}

// ban refuses the key for a time; for none, its ban is lifted.
func (a *API) ban(r *http.Request, q *query) error {
	if q.wholeDomain {
		return a.banDomain(r, q)
	}
	return a.forTime(r, q, overlay.Ban)
}

// allow lets the key pass for a time; for none, it is limited again.
func (a *API) allow(r *http.Request, q *query) error { return a.forTime(r, q, overlay.Allow) }

func (a *API) forTime(r *http.Request, q *query, kind overlay.Kind) error {
	if q.seconds == 0 {
		return a.lift(r, q, kind)
	}
	t, err := a.target(q)
	if err != nil {
		return err
	}
	do := a.opt.Overlay.Ban
	if kind == overlay.Allow {
		do = a.opt.Overlay.Allow
	}
	err = do(r.Context(), t, time.Duration(q.seconds)*time.Second, a.author(r, q))
	a.record(q, t, kind)
	if err == nil && kind == overlay.Ban {
		q.notCovered = append(a.unsent(t.Entries, false), a.besides(t)...)
	}
	return err
}

// record notes in q what there is of a kind for a key.
func (a *API) record(q *query, t overlay.Target, kind overlay.Kind) {
	for _, e := range a.opt.Overlay.Of(t.Limit, t.Key) {
		if e.Kind == kind {
			q.yaml = a.opt.Overlay.YAML(&e)
		}
	}
}

// noRate takes an override back.
const noRate = "none"

// override gives the key other numbers, or takes them back.
func (a *API) override(r *http.Request, q *query) error {
	if q.rate == noRate {
		if q.burst != 0 || q.seconds != 0 {
			return &inputError{"none goes alone: leave burst and seconds out", "#/rate"}
		}
		return a.lift(r, q, overlay.Override)
	}
	t, err := a.target(q)
	if err != nil {
		return err
	}
	rate, err := rules.ParseRate(q.rate)
	leases := t.Limit.Traits()&weir.Leases != 0
	takers := rules.Takers("burst")
	switch {
	case err != nil:
		return &inputError{err.Error(), "#/rate"}
	case rate.Count == 0:
		return &inputError{"a limit of 0 refuses everything: ban the key instead", "#/rate"}
	case leases && rate.Period != 0:
		return &inputError{"is for a concurrency limit: write how many at once, such as 20", "#/rate"}
	case !leases && rate.Period == 0:
		return &inputError{"does not say per what: write it like " + q.rate + "/minute", "#/rate"}
	case q.burst > 0 && !slices.Contains(takers, t.Limit.Algorithm.Name()):
		return &inputError{"is for " + strings.Join(takers, ", ") + ", not for " + t.Limit.Algorithm.Name(), "#/burst"}
	}
	n := overlay.Numbers{Count: rate.Count, Period: rate.Period, Burst: q.burst}
	err = a.opt.Overlay.Override(r.Context(), t, n, time.Duration(q.seconds)*time.Second, a.author(r, q))
	a.record(q, t, overlay.Override)
	return err
}

// author is who asks for a change, and why.
func (a *API) author(r *http.Request, q *query) overlay.Author {
	return overlay.Author{By: a.who(r), Reason: strings.Clone(q.reason)}
}

// who says who an operator is, for the log and for those who look after.
func (a *API) who(r *http.Request) string {
	from := "a local socket"
	if addr := peer(r); addr.IsValid() {
		from = addr.String()
	}
	if a.opt.AdminToken != "" {
		return "admin token from " + from
	}
	return from
}

// appendKeys appends how the keys that req met stand, after {"allowed":.
func (a *API) appendKeys(ctx context.Context, b []byte, req *weir.Request, d weir.Decision) ([]byte, error) {
	ops := req.Ops()
	b = strconv.AppendBool(b, d.Allowed())
	b = append(b, `,"retry_after":`...)
	b = appendSeconds(b, d.RetryAfter)
	b = append(b, `,"limits":[`...)
	first := true
	for i := range ops {
		if ops[i].Decision.Limit == nil {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendOps(b, ops[i:i+1], true)
		if a.opt.Keyring == nil || ops[i].Role == weir.Deny {
			continue
		}
		cells, _, err := a.opt.Keyring.Inspect(ctx, ops[i].Key, ops[i].Limit)
		if err != nil {
			return b, err
		}
		b = append(b[:len(b)-1], `,"cells":[`...)
		for j, n := range cells[:min(len(cells), maxCells)] {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, n, 10)
		}
		b = append(b, "]}"...)
	}
	b, err := a.appendOverlay(append(b, ']'), req)
	return append(b, '}'), err
}

// appendOverlay appends the members that tell what operators laid over the keys of
// req and over their limits. Rules is asked again, for a limit that is off is not
// among those that were met.
func (a *API) appendOverlay(b []byte, req *weir.Request) ([]byte, error) {
	o := a.opt.Overlay
	if o == nil {
		return b, nil
	}
	keys, modes := o.Views(o.OfClient(req)), []overlay.SwitchView{}
	var all []overlay.SwitchView
	seen := map[*weir.Limit]bool{}
	for _, op := range o.Beneath().Match(nil, req) {
		if op.Limit == nil {
			continue
		}
		keys = append(keys, o.Views(o.Of(op.Limit, op.Key))...)
		sw := o.SwitchOf(op.Limit)
		if sw == nil || seen[op.Limit] {
			continue
		}
		seen[op.Limit] = true
		if all == nil {
			all = o.SwitchViews()
		}
		for _, v := range all {
			if v.Domain == sw.Domain && v.Rule == sw.Rule && v.Limit == sw.Limit {
				modes = append(modes, v)
			}
		}
	}
	data, err := json.Marshal(keys)
	b = append(append(b, `,"overlay":`...), data...)
	if err == nil {
		data, err = json.Marshal(modes)
		b = append(append(b, `,"modes":`...), data...)
	}
	return b, err
}

// maxCells is how many words of a key's state are shown.
const maxCells = 256
