package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/overlay"
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

// keys answers operators about one key: how it stands under the limits that the one
// descriptor meets, or under the one of them that is named.
type keys struct {
	queries  *queries
	book     Rulebook // nil without rules
	overlay  *overlay.Overlay
	keyring  Keyring // nil where the store has none
	clients  func(name string) []KnownClient
	coverage *coverage
}

func (k *keys) routes() routes {
	return routes{"/v1/admin/inspect": k.answerAfter(0, nil)}
}

// An action changes something of the key in q.
type action func(r *http.Request, q *query) error

// answerAfter answers with how a key stands after do, if there is one.
func (k *keys) answerAfter(s shape, do action) methods {
	return methods{"POST": k.queries.answers(maxSmallBody, s|mayName|mayClient, func(c *call, r *http.Request) error {
		q := &c.query
		if q.client != "" {
			if fault := identify(q, k.clients); fault != nil {
				return fault
			}
		}
		if fault := checkOneKey(q, s); fault != nil {
			return fault
		}
		if q.client == "" {
			k.coverage.rewrite(q)
		}
		if do != nil {
			if err := do(r, q); err != nil {
				return err
			}
		}
		return k.writeResponse(c, r, do != nil)
	})}
}

// writeResponse makes the response: how the key of c stands. isChanged is set after an action.
func (k *keys) writeResponse(c *call, r *http.Request, isChanged bool) error {
	q := &c.query
	req := q.reqs[0]
	if q.limit != "" && !isChanged && q.client == "" {
		if _, fault := chooseOps(k.queries.limiter.Match(req), q.limit); fault != nil {
			return k.explain(fault, req)
		}
	}
	keyring, decide := k.keyring, peekPastBans
	if q.here { // the store may be away
		keyring, decide = nil, peekDecision
	}
	d, err := decide(r.Context(), k.queries.limiter, req)
	if err != nil {
		return err
	}
	if c.out, err = appendKeys(r.Context(), append(c.out[:0], `{"allowed":`...), keyring, req, d); err != nil {
		return err
	}
	var more struct {
		overlaid
		YAML       *string      `json:"yaml,omitempty"`
		Repeated   bool         `json:"repeated,omitempty"`
		CountedAs  []weir.Entry `json:"counted_as,omitempty"`
		Client     *foundClient `json:"client,omitempty"`
		NotCovered []string     `json:"not_covered,omitempty"`
		Warnings   []string     `json:"warnings,omitempty"`
	}
	more.overlaid, more.NotCovered, more.Repeated = overlaidOf(k.overlay, req), q.notCovered, q.isRepeated
	if isChanged {
		more.YAML = &q.yaml
	}
	if q.client != "" {
		more.Client = &foundClient{req.Domain, req.Descriptors[0].Entries}
	}
	es := req.Descriptors[0].Entries
	more.Warnings = k.coverage.findUnsent(req.Domain, es, q.wholeDomain)
	if q.typed != nil {
		more.CountedAs = es
	}
	c.out, err = appendMembers(c.out, &more)
	return err
}

// foundClient is who was meant by a name in events.
type foundClient struct {
	Domain  string       `json:"domain"`
	Entries []weir.Entry `json:"entries"`
}

// peekDecision decides req without spending.
func peekDecision(ctx context.Context, l *weir.Limiter, req *weir.Request) (weir.Decision, error) {
	req.Verb = weir.Peek
	return l.Decide(ctx, req)
}

// peekPastBans decides req without spending. Unlike a check it asks the limits of a
// banned key too.
func peekPastBans(ctx context.Context, l *weir.Limiter, req *weir.Request) (weir.Decision, error) {
	req.Verb = weir.Peek
	rest, bans := overlay.SplitBans(l.Match(req))
	if len(bans) == 0 || len(rest) == 0 || slices.ContainsFunc(rest, func(o weir.Op) bool { return o.Role == weir.Deny }) {
		return peekDecision(ctx, l, req)
	}
	d, err := l.Apply(ctx, rest)
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

// checkOneKey reports what keeps q from being about one key.
func checkOneKey(q *query, s shape) *inputError {
	switch {
	case len(q.reqs[0].Descriptors) != 1:
		return &inputError{"must be one descriptor: one key is meant", "#/descriptors"}
	case s&mayUnits != 0 && q.units == 0:
		return &inputError{"is missing", "#/units"}
	case q.end && q.seen&(seenSeconds|seenRate|seenBurst) != 0:
		return &inputError{"goes alone: leave rate, burst and seconds out", "#/end"}
	case q.end:
	case s&maySeconds != 0 && q.seen&seenSeconds == 0:
		return &inputError{"is missing; end takes back what there is", "#/seconds"}
	case s&mayRate != 0 && q.rate == "":
		return &inputError{"is missing: such as 5000/minute; end takes an override back", "#/rate"}
	case s&mayRate != 0 && q.rate != noRate && q.seen&seenSeconds != 0 && q.seconds == 0:
		return &inputError{"must be at least 1: leave it out for an override without an end, or write end to take it back", "#/seconds"}
	}
	return nil
}

// errNoLimit is the fault of entries that no limit counts for.
var errNoLimit = &inputError{"no limit counts for these entries", "#/descriptors"}

// explain adds to errNoLimit what the rules of the key's domain are matched by.
func (k *keys) explain(fault *inputError, req *weir.Request) *inputError {
	if fault == errNoLimit {
		if why := checks.Unmatched(k.queries.limiter, req); why != "" {
			return &inputError{fault.detail + ": " + why, fault.pointer}
		}
		if k.book != nil {
			if why := k.book.MissingTier(req); why != "" {
				return &inputError{fault.detail + ": " + why, fault.pointer}
			}
		}
	}
	return fault
}

// chooseOps returns those of ops that count for the one limit that is meant: the
// limit of the given name, or the only one. What it shares with other keys, a
// pool, is left out unless it is named itself.
func chooseOps(ops []weir.Op, name string) ([]weir.Op, *inputError) {
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
		return nil, errNoLimit
	case name == "" && len(names) > 1:
		return nil, &inputError{"is missing; say which limit is meant: " + quoteNames(names), "#/limit"}
	case name == "":
		name = names[0]
	case !slices.Contains(names, name):
		return nil, &inputError{"is not met by these entries; they meet " + quoteNames(names), "#/limit"}
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

// appendKeys appends how the keys that req met stand, after {"allowed": and before what
// else there is to say; with their state where there is a keyring.
func appendKeys(ctx context.Context, b []byte, keyring Keyring, req *weir.Request, d weir.Decision) ([]byte, error) {
	ops := req.Ops()
	b = appendSeconds(append(strconv.AppendBool(b, d.Allowed()), `,"retry_after":`...), d.RetryAfter)
	b = append(b, `,"limits":[`...)
	from := len(b)
	for i := range ops {
		if ops[i].Decision.Limit == nil {
			continue
		}
		if len(b) > from {
			b = append(b, ',')
		}
		b = appendOps(b, ops[i:i+1], true)
		if keyring == nil || ops[i].Role == weir.Deny {
			continue
		}
		cells, _, err := keyring.Inspect(ctx, ops[i].Key, ops[i].Limit)
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
	return append(b, ']'), nil
}

// maxCells is how many words of a key's state are shown.
const maxCells = 256

// overlaid is what operators changed of the keys of a request and of their limits, as a
// response has it.
type overlaid struct {
	Keys  []overlay.View     `json:"overlay"`
	Modes []overlay.ModeView `json:"modes"`
}

// overlaidOf returns what operators changed of what req meets. The rules are asked again: a
// limit that is off is not among those that were met.
func overlaidOf(o *overlay.Overlay, req *weir.Request) overlaid {
	out := overlaid{o.Keys.Views(o.Keys.OfClient(req)), []overlay.ModeView{}}
	seen := map[*weir.Limit]bool{}
	for _, op := range o.Beneath().Match(nil, req) {
		if op.Limit == nil {
			continue
		}
		out.Keys = append(out.Keys, o.Keys.Views(o.Keys.EntriesOf(op.Limit, op.Key))...)
		if v := o.Modes.ViewOfLimit(op.Limit); v != nil && !seen[op.Limit] {
			out.Modes = append(out.Modes, *v)
		}
		seen[op.Limit] = true
	}
	return out
}
