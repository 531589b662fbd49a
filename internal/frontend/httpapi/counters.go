package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/internal/overlay"
)

// counters changes what is counted for a key.
type counters struct {
	keys      *keys
	overrides *overrides
	operators *operators
}

func (n *counters) routes() routes {
	reset := n.keys.answerAfter(mayReason, n.noting("reset", "key reset", n.resetKey))
	reset["POST"] = needs(n.keys.keyring != nil, "the store of this service cannot forget single keys", reset["POST"])
	return routes{
		"/v1/admin/reset": reset,
		"/v1/admin/grant": n.keys.answerAfter(mayReason|mayUnits|mayKey, n.noting("grant", "units granted", n.grantUnits)),
	}
}

// noting returns the action that calls do with the ops of the limit that is meant, and
// notes what it did: after is how it stands then, in words.
func (n *counters) noting(name, what string, do func(r *http.Request, q *query, ops []weir.Op) (after string, err error)) action {
	return func(r *http.Request, q *query) error {
		req := q.reqs[0]
		ops, fault := chooseOps(n.keys.queries.limiter.Match(req), q.limit)
		if fault != nil {
			return n.keys.explain(fault, req)
		}
		before := n.unitsLeft(r.Context(), ops)
		after, err := do(r, q, ops)
		if q.isRepeated || err != nil && !errors.Is(err, errDegraded) {
			return err
		}
		n.keys.overlay.Audit.NoteChanges(r.Context(), what, overlay.Change{Action: name,
			Subject: overlay.Subject{Domain: req.Domain, Entries: req.Descriptors[0].Entries, Limit: ops[0].Limit.Name}, By: n.operators.nameOperator(r), Reason: q.reason, Before: before, After: after})
		return err
	}
}

// resetKey forgets the key, and lifts its ban.
func (n *counters) resetKey(r *http.Request, q *query, ops []weir.Op) (after string, err error) {
	if ops[0].Role != weir.Pool { // first, as it tells whether the store answers
		err = n.overrides.liftEntry(r, q, overlay.Ban)
	}
	for i := 0; i < len(ops) && err == nil; i++ {
		if _, err = n.keys.keyring.Forget(r.Context(), ops[i].Key, ops[i].Limit); err != nil {
			err = &overlay.StoreError{Err: err, Sent: true}
		}
	}
	return "untouched", err
}

// grantUnits gives units back to the key, up to untouched. A store that is away gets them when
// it is back, or it has them and its answer is lost.
func (n *counters) grantUnits(r *http.Request, q *query, ops []weir.Op) (after string, err error) {
	var refunds []weir.Op
	for _, o := range ops {
		switch t := o.Limit.Traits(); {
		case o.Role == weir.Ban:
			continue
		case t&(weir.Sketches|weir.Leases|weir.Shapes) != 0:
			return "", weir.ErrRefund
		}
		if _, alone := weir.NodeOf(n.keys.queries.limiter.Store(), o.Limit); alone {
			return "", weir.ErrNode
		}
		refunds = append(refunds, weir.Op{Key: o.Key, Limit: o.Limit, Cost: q.units, Role: weir.Always, Verb: weir.Refund})
	}
	if q.key != "" {
		mark := n.keys.queries.calls.Op(once.Grant, q.key, q.reqs[0], q.limit, strconv.FormatInt(q.units, 10))
		refunds = append([]weir.Op{once.AttachMark(refunds[0].Key, mark)}, refunds...)
	}
	if _, err := n.keys.queries.limiter.Apply(r.Context(), refunds); err != nil {
		return "", err
	}
	if q.key != "" {
		mark := &refunds[0]
		if refunds = refunds[1:]; mark.Decision.Degraded() {
			return "", &overlay.StoreError{Err: weir.ErrMark, Sent: true}
		}
		if q.isRepeated, err = once.IsRepeated(mark); q.isRepeated || err != nil {
			return "", err
		}
	}
	if slices.ContainsFunc(refunds, func(o weir.Op) bool { return o.Decision.Degraded() }) {
		return fmt.Sprintf("%d are given back when the store answers", q.units), &overlay.StoreError{Err: errDegraded, Sent: true}
	}
	return fmt.Sprintf("%s, after %d were given back", n.unitsLeft(r.Context(), ops), q.units), nil
}

var errDegraded = errors.New("decided without the store")

// unitsLeft says how many units ops have left, without spending.
func (n *counters) unitsLeft(ctx context.Context, ops []weir.Op) string {
	var peek []weir.Op
	for _, o := range ops {
		if o.Role != weir.Ban {
			peek = append(peek, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, ID: o.ID, Role: weir.Always, Verb: weir.Peek})
		}
	}
	if _, err := n.keys.queries.limiter.Apply(ctx, peek); err != nil {
		return "" // the change itself meets the error, if it lasts
	}
	return strconv.FormatInt(peek[0].Decision.Remaining, 10) + " left"
}
