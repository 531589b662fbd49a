package storetest

import (
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// verbs: looking changes nothing, being refused changes nothing, what is given
// back can be spent again, what is forced is owed.
func (s *suite) verbs() {
	for _, a := range algorithm.All {
		l := compiled(s, perHour("verbs "+a.Name(), a.Name(), 10))
		if !exact(l) {
			continue
		}
		key := a.Name()
		fresh := s.peek(key, l, 1)
		if again := s.peek(key, l, 1); again != fresh {
			s.Errorf("%s: looked twice, saw %+v, then %+v", key, fresh, again)
		}
		if s.spend(key, l, 1<<50) {
			s.Errorf("%s: 2^50 of 10 passed", key)
		}
		if again := s.peek(key, l, 1); again != fresh {
			s.Errorf("%s: a refusal changed %+v to %+v", key, fresh, again)
		}
		spent := s.take(weir.Op{Key: key, Limit: l, Cost: 4, ID: 1})[0]
		if !spent.Charged {
			s.Errorf("%s: 4 of 10 refused", key)
		}
		if l.Traits()&weir.Shapes != 0 {
			continue // a queue's refunds depend on who is behind
		}
		s.left(key, l, 6)
		if o := s.take(spent.Undo(4)); !o[0].Charged {
			s.Errorf("%s: refund refused", key)
		}
		s.left(key, l, 10)
		if o := s.take(weir.Op{Key: key, Limit: l, Cost: 12, ID: 1, Verb: weir.Force}); !o[0].Charged {
			s.Errorf("%s: force refused", key)
		}
		s.left(key, l, 0)
		if s.spend(key, l, 1) && l.Traits()&weir.Leases == 0 {
			s.Errorf("%s: passed after 12 of 10 were forced", key)
		}
	}
}

// takeOne: it is Take of a single op.
func (s *suite) takeOne() {
	for _, a := range algorithm.All {
		l := compiled(s, perHour("one "+a.Name(), a.Name(), 3))
		if !s.serves(l) {
			continue
		}
		if l.Traits()&weir.Leases != 0 {
			if _, err := s.store.TakeOne(s.ctx, "k", l, 1); !errors.Is(err, weir.ErrNoLease) {
				s.Errorf("%s: error %v, want ErrNoLease", a.Name(), err)
			}
			continue
		}
		for i := range 20 {
			peeked := s.peek("k", l, 1)
			d, err := s.store.TakeOne(s.ctx, "k", l, 1)
			if err != nil {
				s.Fatalf("%s: %v", a.Name(), err)
			}
			if d.Allowed() != peeked.Allowed() {
				s.Errorf("%s: request %d allowed %v, a Peek said %v", a.Name(), i, d.Allowed(), peeked.Allowed())
			}
		}
		d, err := s.store.TakeOne(s.ctx, "k", l, 0)
		if err != nil || !d.Allowed() || d.Limit == nil {
			s.Errorf("%s: looking with a cost of zero: %+v, %v", a.Name(), d, err)
		}
	}
}

// releases: a permit that nobody holds is not released, asked alone or beside others.
func (s *suite) releases() {
	l := compiled(s, perHour("releases", algorithm.Concurrency.Name(), 3))
	bucket := compiled(s, perHour("more", algorithm.TokenBucket.Name(), 100))
	if !s.serves(l) {
		s.Skip("takes concurrency limits")
	}
	end := func(id int64, held bool) {
		s.Helper()
		for _, more := range [][]weir.Op{nil, {{Key: "k", Limit: bucket, Cost: 1}}} {
			o := s.take(append(more, weir.Op{Key: "k", Limit: l, Cost: 1, ID: id, Role: weir.Always, Verb: weir.Refund})...)
			if got := o[len(o)-1]; !got.Charged || got.Decision.Allowed() != (held && more == nil) || !o[0].Decision.Allowed() && more != nil {
				s.Errorf("release of %d more %d others, held %v: %+v", id, len(more), held, got.Answer)
			}
		}
	}
	for id := range int64(2) {
		s.take(weir.Op{Key: "k", Limit: l, Cost: 1, ID: id + 1})
	}
	end(3, false)
	s.left("k", l, 1)
	end(1, true)
	s.left("k", l, 2)
	end(1, false)
	if o := s.take(weir.Op{Key: "k", Limit: l, Cost: 2, ID: 4}); !o[0].Charged {
		s.Errorf("what was released is taken: %+v", o[0].Answer)
	}
	s.left("k", l, 0)
	end(3, false)
	o := s.take(weir.Op{Key: "k", Limit: bucket, Cost: 1}, weir.Op{Key: "k", Limit: l, Cost: 1, ID: 2, Role: weir.Always, Verb: weir.Refund})
	if !o[1].Charged || !o[1].Decision.Allowed() {
		s.Errorf("release more a spend: %+v", o[1].Answer)
	}
}

// expiry: after ResetAfter a key is as if never seen.
func (s *suite) expiry() {
	if s.Live {
		s.Skip("takes a clock that can be moved")
	}
	for _, l := range limits(s) {
		if !exact(l) {
			continue
		}
		fresh := s.peek("k", l, 1)
		var reset time.Duration
		for range 3 {
			reset = s.take(weir.Op{Key: "k", Limit: l, Cost: 1, ID: 1})[0].Decision.ResetAfter
		}
		if reset <= 0 {
			s.Errorf("%s: nothing to wait for after a spend", l.Name)
		}
		s.pass(reset)
		if again := s.peek("k", l, 1); again != fresh {
			s.Errorf("%s: after its reset of %v a key says %+v, a new one %+v", l.Name, reset, again, fresh)
		}
	}
}

// approximate: never more than the limit, and nothing can be given back.
func (s *suite) approximate() {
	l := compiled(s, perHour("approximate", algorithm.Approximate.Name(), 5))
	if !s.serves(l) {
		if err := s.store.Take(s.ctx, []weir.Op{{Key: "k", Limit: l, Cost: 1}}); err == nil {
			s.Error("a limit that cannot be served was")
		}
		return
	}
	passed := 0
	for range 20 {
		if s.spend("k", l, 1) {
			passed++
		}
	}
	if passed > 5 || passed == 0 {
		s.Errorf("%d of 20 requests passed a limit of 5", passed)
	}
	for n := 1; n <= 2; n++ {
		ops := make([]weir.Op, n)
		for i := range ops {
			ops[i] = weir.Op{Key: "k", Limit: l, Cost: 1, Verb: weir.Refund}
		}
		if err := s.store.Take(s.ctx, ops); !errors.Is(err, weir.ErrRefund) {
			s.Errorf("refund of %d: error %v, want ErrRefund", n, err)
		}
	}
	exactOne := compiled(s, perHour("beside", bucketName, 5))
	ops := s.take(weir.Op{Key: "k", Limit: exactOne, Cost: 1}, weir.Op{Key: "k", Limit: l, Cost: 1})
	if ops[0].Charged || ops[1].Charged {
		s.Error("an exhausted approximate limit let a request pass")
	}
	s.left("k", exactOne, 5)
	ops = s.take(weir.Op{Key: "n", Limit: exactOne, Cost: 1}, weir.Op{Key: "n", Limit: l, Cost: 1})
	if !ops[0].Charged || !ops[1].Charged {
		s.Error("a new key was refused")
	}
	s.left("n", exactOne, 4)
}
