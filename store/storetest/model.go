package storetest

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/history"
)

// A model is the obvious store: a map of rows and no concurrency.
type model struct {
	rows map[rowKey]row
}

type rowKey struct {
	key string
	id  uint64
}

// A row is by the numbers of the limit that was asked last.
type row struct {
	l     *weir.Limit
	cells []int64
}

func newModel() *model { return &model{rows: map[rowKey]row{}} }

func (m *model) row(o *weir.Op, now int64) []int64 {
	k := rowKey{o.Key, o.Limit.ID()}
	cells := history.Carry(o.Limit, m.rows[k].cells, m.rows[k].l, now)
	if cells == nil {
		cells = make([]int64, o.Limit.Cells)
	}
	m.rows[k] = row{o.Limit, cells}
	return cells
}

// take decides ops at now: look at all with what earlier ops of the same key
// would take, settle, charge.
func (m *model) take(ops []weir.Op, now int64) {
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			continue
		}
		ask := weir.Ask{Now: now, ID: o.AskID(), Verb: weir.Peek}
		if o.Cost > 0 || o.Headroom > 0 {
			ask.Cost = o.Cost + o.Headroom + m.earlier(ops[:i], o)
		}
		o.Answer = weir.Answer{Decision: o.Limit.Algorithm.Step(m.row(o, now), o.Limit, ask)}
	}
	weir.Resolve(ops)
	for i := range ops {
		o := &ops[i]
		if !o.Charged || o.Role == weir.Deny {
			continue
		}
		d := o.Limit.Algorithm.Step(m.row(o, now), o.Limit, weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Commit()})
		if !o.Decision.Allowed() && d.Allowed() && o.Verb != weir.Refund {
			d.RetryAfter = o.Decision.RetryAfter
		}
		o.Answer = o.WithDecision(d)
	}
}

// earlier returns what the ops before o take from its key. A lease is taken
// once, however often it is asked for.
func (m *model) earlier(before []weir.Op, o *weir.Op) int64 {
	var sum int64
	for i := range before {
		e := &before[i]
		same := e.Role != weir.Deny && e.Key == o.Key && e.Limit.ID() == o.Limit.ID() && (e.Verb == weir.Spend || e.Verb == weir.Force)
		if same && !(e.Limit.Traits()&weir.Leases != 0 && e.ID == o.ID) {
			sum += e.Cost
		}
	}
	return sum
}
