package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
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

// action does something to the ops that an operator chose, all of one limit.
type action func(ctx context.Context, q *query, ops []weir.Op) error

// keyed answers a path that is about one key: the limits that the one
// descriptor meets, or the one of them that is named. do, if there is one,
// happens first. The answer is how the key stands afterwards.
func (a *API) keyed(s shape, do action) http.HandlerFunc {
	return a.operator(func(w http.ResponseWriter, r *http.Request) {
		c := calls.Get().(*call)
		defer c.release()
		if !c.read(a, w, r, maxSmallBody) {
			return
		}
		defer c.query.release(a)
		q := &c.query
		if a.readQuery(c, s|mayName); c.reader.err == nil {
			c.reader.err = oneKey(q, s)
		}
		if c.reader.err != nil {
			badInput(w, c.reader.err)
			return
		}
		req := q.reqs[0]
		if do != nil {
			ops, fault := choose(a.limiter.Match(req), q.limit)
			if fault != nil {
				badInput(w, fault)
				return
			}
			if err := do(r.Context(), q, ops); err != nil {
				a.failed(w, err)
				return
			}
		}
		req.Verb = weir.Peek
		d, err := a.limiter.Decide(r.Context(), req)
		if err != nil {
			a.undecided(w, err)
			return
		}
		if c.out, err = a.appendKeys(r.Context(), append(c.out[:0], `{"allowed":`...), req.Ops(), d); err != nil {
			a.undecided(w, err)
			return
		}
		sendJSON(w, c.out)
	})
}

// oneKey reports what keeps q from being about one key.
func oneKey(q *query, s shape) *inputError {
	switch {
	case len(q.reqs[0].Descriptors) != 1:
		return &inputError{"must be one descriptor: one key is meant", "#/descriptors"}
	case s&mayUnits != 0 && q.units == 0:
		return &inputError{"is missing", "#/units"}
	case s&maySeconds != 0 && q.seen&seenSeconds == 0:
		return &inputError{"is missing; 0 lifts a ban", "#/seconds"}
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
	var chosen []weir.Op
	for i := range ops {
		if o := &ops[i]; o.Limit.Name == name && o.Role != weir.Deny && o.Role != weir.Ban {
			chosen = append(chosen, *o)
			if i > 0 && ops[i-1].Role == weir.Ban && ops[i-1].Verb != weir.Peek {
				chosen = append(chosen, ops[i-1]) // its lockout
			}
		}
	}
	return chosen, nil
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
func (a *API) reset(ctx context.Context, _ *query, ops []weir.Op) error {
	if a.opt.Keyring == nil {
		return errNoKeyring
	}
	var errs []error
	for i := range ops {
		_, err := a.opt.Keyring.Forget(ctx, ops[i].Key, ops[i].Limit)
		errs = append(errs, err)
	}
	if a.opt.Bans != nil {
		errs = append(errs, a.opt.Bans.ban(ctx, a.limiter, &ops[0], 0))
	}
	return errors.Join(errs...)
}

// grant gives units back to the key, up to untouched.
func (a *API) grant(ctx context.Context, q *query, ops []weir.Op) error {
	var give []weir.Op
	for _, o := range ops {
		switch t := o.Limit.Traits(); {
		case o.Role == weir.Ban:
			continue
		case t&(weir.Sketches|weir.Leases|weir.Shapes) != 0:
			return weir.ErrRefund
		}
		give = append(give, weir.Op{Key: o.Key, Limit: o.Limit, Cost: q.units, Role: weir.Always, Verb: weir.Refund})
	}
	_, err := a.limiter.Apply(ctx, give)
	return err
}

// ban refuses the key for a time; for none, its ban is lifted.
func (a *API) ban(ctx context.Context, q *query, ops []weir.Op) error {
	if a.opt.Bans == nil {
		return errNoBans
	}
	return a.opt.Bans.ban(ctx, a.limiter, &ops[0], time.Duration(q.seconds)*time.Second)
}

var (
	errNoKeyring = errors.New("the store of this service cannot forget single keys")
	errNoBans    = errors.New("this service runs without bans")
)

// failed answers when an operator's wish could not be fulfilled.
func (a *API) failed(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, errNoKeyring), errors.Is(err, errNoBans):
		status = http.StatusNotImplemented
	case errors.Is(err, weir.ErrRefund):
	case errors.Is(err, errBans):
		status = http.StatusConflict
	default:
		a.undecided(w, err)
		return
	}
	answer.Problem{Status: status, Detail: err.Error()}.Write(w)
}

// appendKeys appends how the keys of ops stand, after {"allowed":.
func (a *API) appendKeys(ctx context.Context, b []byte, ops []weir.Op, d weir.Decision) ([]byte, error) {
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
	return append(b, "]}"...), nil
}

// maxCells is how many words of a key's state are shown.
const maxCells = 256
