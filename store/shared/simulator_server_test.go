package shared

import (
	"context"
	"errors"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

const epoch = 1_699_999_200_000_000

var errReset = errors.New("connection reset")

// troubles are how often something goes wrong, each of so many calls, and how.
type troubles struct {
	loseCall, loseAnswer int
	slowCall, slowAnswer int   // takes up to slow
	repeat               int   // of pushes: the network delivers it twice
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
	lostAt int64 // when it has lost writes last
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
		s.lostAt = s.now
	})
	s.set += set
	for i, t := range s.truths {
		if t.failOver(); set != 0 && i != atStrict {
			t.restart()
		}
	}
}

// quick is how long a call takes one way.
func (s *server) quick() int64 { return 1 + s.Int64N(s.troubles.quick) }

// oneOf reports whether this is one of n; of zero it never is.
func (w *world) oneOf(n int) bool { return n > 0 && w.IntN(n) == 0 }

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
