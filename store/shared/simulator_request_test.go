package shared

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Asking is the context of a request whose caller may leave, and what servers have charged
// for it: all or nothing.
type asking struct {
	context.Context
	ends    int64 // when its caller leaves
	now     *int64
	began   int // when it was asked, in tasks that had begun
	leaves  bool
	charged [limits]int64 // less what was undone
	// isUnsure: something of it had no answer.
	isUnsure bool
}

type askingKey struct{}

var never = make(chan struct{})

// Done implements context.Context.
func (a *asking) Done() <-chan struct{} {
	if a.leaves {
		return never
	}
	return nil
}

// Err implements context.Context.
func (a *asking) Err() error {
	if a.leaves && *a.now >= a.ends {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (a *asking) Value(key any) any {
	if key == (askingKey{}) {
		return a
	}
	return nil
}

// ask returns the context of a request.
func (c *client) ask() *asking {
	a := c.spare
	if c.spare = nil; a == nil {
		a = &asking{}
	}
	*a = asking{Context: context.Background(), now: &c.world.now, began: c.seq, leaves: c.oneOf(c.impatient)}
	if a.leaves {
		a.ends = c.now + 1 + c.Int64N(c.patience)
	}
	return a
}

// answered notes that a request has ended. Its context is used again, unless something began
// meanwhile that may hold it.
func (c *client) answered(a *asking) {
	if c.seq == a.began {
		c.spare = a
	}
}

// requestOf returns the request that a call is made for, nil if none waits for it.
func requestOf(c *transport.Call) *asking {
	a, _ := c.Context.Value(askingKey{}).(*asking)
	return a
}

// charge notes units that were charged for a request, or given back.
func (a *asking) charge(at int, units int64) {
	if a != nil {
		a.charged[at] += units
	}
}

// unheard returns the result of a call without an answer.
func (a *asking) unheard(o transport.Outcome, err error) *transport.Result {
	if a != nil {
		a.isUnsure = true
	}
	return &transport.Result{Outcome: o, MayRun: true, Err: err}
}

// marked is the descriptor of what clients ask for: what gives back a part of a request has
// none.
const marked = 1

// isUndo reports whether an op gives back what was charged for a request that another part
// of it has refused.
func isUndo(o *weir.Op) bool { return o.Verb == weir.Refund && o.Descriptor != marked }

// sureness is what tells whether all is known of what was charged for a request.
type sureness struct{ combined, unsureUndos int }

// check looks whether all of a request was charged that passes, and nothing of one that is
// refused. Of what nodes may hold, what was not charged is theirs.
func (c *client) check(a *asking, before sureness, ops []weir.Op) {
	if a.isUnsure || before != c.sureness {
		return
	}
	for i := range ops {
		o := &ops[i]
		if isByPolicy(o.Decision) {
			return
		}
	}
	for i := range ops {
		o := &ops[i]
		at := c.limitOf(o.Limit.ID())
		if at < 0 || o.Verb != weir.Spend || o.Limit.Traits()&weir.Leases != 0 {
			continue
		}
		want := int64(0)
		if o.Charged && (c.isStrict(at) || a.charged[at] != 0) {
			want = o.Cost
		}
		if got := a.charged[at]; got != want {
			c.fail("%s: %d of a request are charged, not %d: %d ops, charged %v", o.Limit.Name, got, want, len(ops), o.Charged)
		}
	}
}
