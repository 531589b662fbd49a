package shared

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Rows are the counters of a store, which a world steps by its own time, without goroutines.
type rows struct {
	weir.Store // Take alone is called
	now        func() int64
	all        map[counter]*row
	// keeps is for how long writes are known that can be lost, in microseconds.
	keeps  int64
	writes []write
}

type counter struct {
	key string
	id  uint64
}

type row struct{ cells []int64 }

// A write is how a row was before, and what was charged to it.
type write struct {
	at     int64
	row    *row
	before []int64
	id     uint64 // of the limit
	cost   int64  // negative: given back
}

func newRows(now func() int64) *rows { return &rows{now: now, all: map[counter]*row{}} }

// Take implements weir.Store.
func (r *rows) Take(_ context.Context, ops []weir.Op) error {
	now := r.now()
	if o := &ops[0]; len(ops) == 1 && o.Role == weir.Enforce && o.Headroom == 0 && !o.Penalize {
		o.Decision = r.step(o, weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Verb})
		o.Now, o.Borrowed, o.Charged = now, false, o.Verb != weir.Peek && (o.Verb != weir.Spend || o.Decision.Allowed())
		return nil
	}
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
		o.Decision = r.step(o, a)
	}
	weir.Resolve(ops)
	for i := range ops {
		o := &ops[i]
		if !o.Charged {
			continue
		}
		retry := o.Decision.RetryAfter
		o.Decision = r.step(o, weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Commit()})
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

func (r *rows) step(o *weir.Op, a weir.Ask) weir.Decision {
	l, c := o.Limit, counter{o.Key, o.Limit.ID()}
	w := r.all[c]
	if w == nil {
		w = &row{cells: make([]int64, 1)}
		c.key = strings.Clone(c.key) // its call is used again
		r.all[c] = w
	}
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
	r.writes = append(r.writes, write{a.Now, w, slices.Clone(w.cells), l.ID(), cost})
}

// lose undoes the writes since an instant, the last first, and calls each of them.
func (r *rows) lose(since int64, each func(w *write)) {
	for i := len(r.writes) - 1; i >= 0 && r.writes[i].at >= since; i-- {
		w := &r.writes[i]
		w.row.cells = w.before
		each(w)
		r.writes = r.writes[:i]
	}
}

const epoch = 1_699_999_200_000_000

var errReset = errors.New("connection reset")

// troubles are how often something goes wrong, each of so many calls, and how.
type troubles struct {
	loseCall, loseAnswer int
	slowCall, slowAnswer int   // takes up to slow
	slow                 int64 // microseconds
	quick                int64 // the most that a call takes to the server, or back
}

// A server is the store that the nodes share.
type server struct {
	*fleet
	rows     *rows
	drift    int64 // ppm
	set      int64 // its clock was set by so much
	troubles troubles
	// downUntil is until when it is not reached.
	downUntil int64
	// faulty is when a call was last late, or had no answer.
	faulty int64
	calls  int
}

func newServer(f *fleet) *server {
	s := &server{fleet: f, faulty: -1 << 60}
	s.rows = newRows(s.time)
	return s
}

// time is the server's.
func (s *server) time() int64 { return epoch + s.now + s.now*s.drift/1_000_000 + s.set }

// take carries out ops.
func (s *server) take(ops []weir.Op) {
	for i := range ops {
		s.checkPrice(&ops[i])
	}
	if err := s.rows.Take(context.Background(), ops); err != nil {
		panic(err) // rows reject nothing
	}
	for i := range ops {
		s.notePrice(&ops[i])
	}
	s.calls++
	s.event("serve", int64(len(ops)), int64(ops[0].Verb), ops[0].Cost, ops[0].Decision.Remaining)
}

// failOver has another server take over, which lacks the last writes, and whose clock is
// another.
func (s *server) failOver(lost, set int64) {
	s.rows.lose(s.time()-lost, func(w *write) {
		if i := s.limitOf(w.id); i >= 0 && w.cost > 0 {
			s.truths[i].forgive(w.cost)
		}
	})
	s.set += set
	for i, t := range s.truths {
		if t.failOver(); set != 0 && i != atStrict {
			t.restart()
		}
	}
}

// A driver carries a node's calls to the server, each of which may get lost or be late. It
// is what a node is given as the shared store.
type driver struct {
	weir.Store
	*server
	node *node
}

// Driver implements transport.Driven.
func (d *driver) Driver() (transport.Driver, transport.Tuning) {
	return d, transport.Tuning{Workers: 8, Waiting: 1000, Opened: d.node.opened, Closed: func(int) { d.event("closed", d.node.index) }}
}

func (d *driver) Shards() int { return 1 }

func (d *driver) Shard(string) int { return 0 }

func (d *driver) Send(_ int, calls []*transport.Call) {
	for _, c := range calls {
		c.Finish(d.call(c))
	}
}

func (d *driver) Probe(int, time.Duration) error {
	d.sleep(d.quick())
	if d.isDown() {
		d.faulty = d.now
		return errReset
	}
	return nil
}

func (d *driver) isDown() bool { return d.now < d.downUntil || d.now < d.node.cutOff }

// quick is how long a call takes one way.
func (s *server) quick() int64 { return 1 + s.Int64N(s.troubles.quick) }

// oneOf reports whether this is one of n; of zero it never is.
func (w *world) oneOf(n int) bool { return n > 0 && w.IntN(n) == 0 }

// call carries out a call, and returns how it ended. What is late is carried out all the
// same, later.
func (d *driver) call(c *transport.Call) *transport.Result {
	f, start, within := &d.troubles, d.now, c.Within.Microseconds()
	there, back := d.quick(), d.quick()
	if d.oneOf(f.slowCall) {
		there += d.Int64N(f.slow)
	}
	if d.oneOf(f.slowAnswer) {
		back += d.Int64N(f.slow)
	}
	d.event("call", d.node.index, there, back)
	if there+back > budget {
		d.faulty = start + budget
	}
	if d.isDown() || d.oneOf(f.loseCall) {
		d.sleep(there)
		d.faulty = d.now
		d.event("lose call")
		return &transport.Result{Outcome: transport.Failed, MayRun: true, Err: errReset}
	}
	ops, isForeground := c.Ops, within <= budget
	if there >= within {
		ops = append([]weir.Op(nil), ops...)
		for i := range ops {
			ops[i].Key = strings.Clone(ops[i].Key) // the call is used again
		}
	}
	d.at(start+there, func() {
		d.take(ops)
		d.node.served(ops, isForeground)
	})
	if there+back >= within {
		d.sleep(within)
		return &transport.Result{Outcome: transport.Late, MayRun: true, Err: transport.ErrLate}
	}
	d.sleep(there + back)
	if d.oneOf(f.loseAnswer) || d.isDown() {
		d.faulty = d.now
		d.event("lose answer")
		return &transport.Result{Outcome: transport.Failed, MayRun: true, Err: errReset}
	}
	return nil
}

// served notes what the server has carried out for a node: what it decided for clients,
// and debts that were paid.
func (n *node) served(ops []weir.Op, isForeground bool) {
	for i := range ops {
		o := &ops[i]
		at := n.limitOf(o.Limit.ID())
		switch {
		case at < 0 || o.Limit.Traits()&weir.Leases != 0 || !o.Charged:
		case isForeground && o.Verb == weir.Spend && (o.Role == weir.Enforce || o.Role == weir.Always) && o.Decision.Allowed():
			n.truths[at].admit(o.Now, o.Cost)
			if at == atTally {
				n.decidedAt[o.Now]++
			}
		case !isForeground && o.Verb == weir.Force && len(ops) == 1:
			n.shares[at].refund(n.localTime(), o.Cost, 0)
		}
	}
}

// A price is for how much time a unit of a bucket was charged.
type price struct{ count, period int64 }

func priceOf(l *weir.Limit) price { return price{l.Count, micros.Of(l.Period)} }

// notePrice notes by what the units of a bucket were charged.
func (s *server) notePrice(o *weir.Op) {
	if at := s.limitOf(o.Limit.ID()); at >= 0 && o.Charged && o.Verb != weir.Refund && o.Limit.Traits()&weir.Refills != 0 {
		s.truths[at].prices[o.Now] = priceOf(o.Limit)
	}
}

// checkPrice looks whether units of a bucket are given back at the price that was charged
// (I3).
func (s *server) checkPrice(o *weir.Op) {
	if at := s.limitOf(o.Limit.ID()); at >= 0 && o.Verb == weir.Refund && o.ChargedAt != 0 {
		if p, ok := s.truths[at].prices[o.ChargedAt]; ok && p != priceOf(o.Limit) {
			s.fail("%s: %d units are given back at the price of %d in %d, and were charged at that of %d in %d",
				o.Limit.Name, o.Cost, o.Limit.Count, micros.Of(o.Limit.Period), p.count, p.period)
		}
	}
}
