package shared

import (
	"context"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/history"
)

// Rows are the counters of a store, which a world steps by its own time, without goroutines.
type rows struct {
	weir.Store // Take alone is called
	now        func() int64
	all        map[counter]*row
	// keeps is for how long writes are known that can be lost, in microseconds.
	keeps  int64
	writes []write
	found  []*row // of the ops of a call
}

type counter struct {
	key string
	id  uint64
}

// A row is by the numbers of the limit that was asked last.
type row struct {
	l     *weir.Limit
	cells []int64
}

// A write is how a row was before, and what was charged to it.
type write struct {
	at     int64
	row    *row
	before row
	id     uint64 // of the limit
	cost   int64  // negative: given back
}

func newRows(now func() int64) *rows { return &rows{now: now, all: map[counter]*row{}} }

// Take implements weir.Store.
func (r *rows) Take(_ context.Context, ops []weir.Op) error {
	now := r.now()
	if o := &ops[0]; len(ops) == 1 && o.Role == weir.Enforce && o.Headroom == 0 && !o.Penalize {
		o.Decision = r.step(r.find(o), o.Limit, weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Verb})
		o.Now, o.Borrowed, o.Charged = now, false, o.Verb != weir.Peek && (o.Verb != weir.Spend || o.Decision.Allowed())
		return nil
	}
	r.found = append(r.found[:0], make([]*row, len(ops))...)
	for i := range ops {
		o := &ops[i]
		if o.Now = now; o.Role == weir.Deny {
			continue
		}
		a := weir.Ask{Now: now, Cost: o.Cost + o.Headroom, ID: o.ID, Verb: weir.Peek}
		for j := range ops[:i] {
			e := &ops[j]
			if e.Role != weir.Deny && e.Key == o.Key && e.Limit.ID() == o.Limit.ID() && (e.Verb == weir.Spend || e.Verb == weir.Force) &&
				(o.Limit.Traits()&weir.Leases == 0 || e.ID != o.ID) && a.Cost > 0 {
				a.Cost += e.Cost
			}
		}
		r.found[i] = r.find(o)
		o.Decision = r.step(r.found[i], o.Limit, a)
	}
	weir.Resolve(ops)
	for i := range ops {
		o := &ops[i]
		if !o.Charged {
			continue
		}
		retry := o.Decision.RetryAfter
		o.Decision = r.step(r.found[i], o.Limit, weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Commit()})
		if retry != 0 && o.Decision.RetryAfter == 0 && o.Verb != weir.Refund {
			o.Decision.RetryAfter = retry
		}
	}
	return nil
}

// TakeOne implements weir.Store.
func (r *rows) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	ops := []weir.Op{{Key: key, Limit: l, Cost: cost}}
	err := r.Take(ctx, ops)
	return ops[0].Decision, err
}

// find returns the row of what an op counts, made if need be.
func (r *rows) find(o *weir.Op) *row {
	c := counter{o.Key, o.Limit.ID()}
	w := r.all[c]
	if w == nil {
		w = &row{cells: make([]int64, 1)}
		c.key = strings.Clone(c.key) // its call is used again
		r.all[c] = w
	}
	return w
}

func (r *rows) step(w *row, l *weir.Limit, a weir.Ask) weir.Decision {
	w.cells, w.l = history.Carry(l, w.cells, w.l, a.Now), l
	need := l.Cells
	if l.Traits()&weir.Grows != 0 {
		need = l.Algorithm.(weir.Grower).Room(w.cells[:min(len(w.cells), l.Cells)], l, a)
	}
	if len(w.cells) < need {
		w.cells = append(w.cells, make([]int64, need-len(w.cells))...)
	}
	if r.keeps > 0 && a.Verb != weir.Peek {
		r.note(w, l, a)
	}
	return l.Algorithm.Step(w.cells[:min(len(w.cells), l.Cells)], l, a)
}

func (r *rows) note(w *row, l *weir.Limit, a weir.Ask) {
	if len(r.writes) > 0 && r.writes[0].at < a.Now-r.keeps {
		i := slices.IndexFunc(r.writes, func(w write) bool { return w.at >= a.Now-r.keeps/2 })
		r.writes = append(r.writes[:0], r.writes[max(i, 0):]...)
	}
	cost := a.Cost
	if a.Verb == weir.Refund {
		cost = -cost
	}
	r.writes = append(r.writes, write{a.Now, w, row{w.l, slices.Clone(w.cells)}, l.ID(), cost})
}

// lose undoes the writes since an instant, the last first, and calls each of them.
func (r *rows) lose(since int64, each func(w *write)) {
	for i := len(r.writes) - 1; i >= 0 && r.writes[i].at >= since; i-- {
		w := &r.writes[i]
		*w.row = w.before
		each(w)
		r.writes = r.writes[:i]
	}
}
