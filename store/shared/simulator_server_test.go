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

// A server has keys of the store that the nodes share.
type server struct {
	*fleet
	index int
	salt  uint64 // of its keys
	rows  *rows
	drift int64 // ppm
	set   int64 // its clock was set by so much
	// downUntil is until when it is not reached, stillUntil until when it does nothing, and
	// slowUntil until when its answers take slowBy.
	downUntil, stillUntil, slowUntil, slowBy int64
	// faulty is when a call was last late, or had no answer.
	faulty int64
	slow   int64 // when a call was last answered in time, but too late for several in a budget
	lostAt int64 // when it has lost writes last
	calls  int
}

func newServer(f *fleet, index int) *server {
	s := &server{fleet: f, index: index, faulty: -1 << 60, salt: f.Uint64(), drift: f.Int64N(1001) - 500}
	s.rows = newRows(s.time)
	return s
}

// time is the server's.
func (s *server) time() int64 { return epoch + s.now + s.now*s.drift/1_000_000 + s.set }

// timeOf returns what it is here when another server has told its time.
func (s *server) timeOf(other *server, told int64) int64 {
	if s == other {
		return told
	}
	return s.time()
}

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
	isLost := [limits]bool{}
	s.rows.lose(s.time()-lost, func(w *write) {
		if i := s.limitOf(w.id); i >= 0 && w.cost > 0 {
			s.truths[i].forgive(w.cost)
			isLost[i] = true
		}
	})
	s.lostAt = s.now
	s.set += set
	for i, t := range s.truths {
		if s.homes[i] != s {
			continue
		}
		// What servers alone decide goes by a clock that was set too, but for the window that
		// began with a write that is lost: before that this one goes on with the last.
		if t.failOver(); set != 0 && i != atStrict || set < 0 && isLost[i] {
			t.restart()
		}
	}
}

// forget has the server begin without what it had.
func (s *server) forget() {
	clear(s.rows.all)
	s.rows.writes = nil
	s.lostAt = s.now
	for i, t := range s.truths {
		if s.homes[i] == s {
			t.failOver()
			t.restart()
		}
	}
}

// delays are how long a call takes there and back.
func (s *server) delays() (there, back int64) {
	f := &s.troubles
	there, back = 1+s.Int64N(f.quick), 1+s.Int64N(f.quick)
	if s.oneOf(f.slowCall) {
		there += s.Int64N(f.slow)
	}
	if s.oneOf(f.slowAnswer) {
		back += s.Int64N(f.slow)
	}
	if s.now < s.slowUntil {
		back += s.slowBy
	}
	if s.now+there < s.stillUntil {
		there += s.stillUntil - s.now
	}
	return there, back
}

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
	if at := s.limitOf(o.Limit.ID()); at >= 0 && o.Verb == weir.Refund && o.FlowsFrom != 0 {
		if p, ok := s.truths[at].prices[o.FlowsFrom]; ok && p != priceOf(o.Limit) {
			s.fail("%s: %d units are given back at the price of %d in %d, and were charged at that of %d in %d",
				o.Limit.Name, o.Cost, o.Limit.Count, micros.Of(o.Limit.Period), p.count, p.period)
		}
	}
}
