package storetest

import (
	"time"

	"github.com/weirlimit/weir"
)

func (s *suite) allOrNothing() {
	wide := compiled(s, perHour("wide", bucketName, 10))
	small := compiled(s, perHour("small", "sliding_window", 2))
	ask := func() []weir.Op {
		return s.take(weir.Op{Key: "all", Limit: wide, Cost: 1}, weir.Op{Key: "user", Limit: small, Cost: 1})
	}
	for range 2 {
		if ops := ask(); !ops[0].Charged || !ops[1].Charged {
			s.Fatalf("refused below both limits: %s, %s", answer(&ops[0]), answer(&ops[1]))
		}
	}
	ops := ask()
	if ops[0].Charged || ops[1].Charged || !ops[0].Decision.Allowed() || ops[1].Decision.Allowed() {
		s.Errorf("above one limit: %s, %s", answer(&ops[0]), answer(&ops[1]))
	}
	s.left("all", wide, 8)
	s.left("user", small, 0)

	// The same in the other order, and with seventeen, more than are kept at hand.
	many := []weir.Op{{Key: "user", Limit: small, Cost: 1}}
	for i := range 40 {
		many = append(many, weir.Op{Key: "many" + string(rune('A'+i)), Limit: wide, Cost: 1})
	}
	for i, o := range s.take(many...) {
		if o.Charged {
			s.Errorf("op %d of a refused request was charged", i)
		}
	}
	for i, o := range s.take(many[1:]...) {
		if !o.Charged {
			s.Errorf("op %d of an allowed request was not charged", i+1)
		}
	}
	s.left("manyA", wide, 9)
	s.left("manyZ", wide, 9)
}

func (s *suite) sameKeyTwice() {
	for _, name := range []string{bucketName, "fixed_window", "sliding_window", "sliding_counter", "sliding_log", "sliding_subwindows"} {
		l := compiled(s, perHour("twice "+name, name, 5))
		twice := func(a, b int64) []weir.Op {
			return s.take(weir.Op{Key: "k", Limit: l, Cost: a}, weir.Op{Key: "k", Limit: l, Cost: b})
		}
		if ops := twice(3, 3); ops[0].Charged || ops[1].Charged {
			s.Errorf("%s: 3 and 3 of 5 passed together", name)
		}
		s.left("k", l, 5)
		if ops := twice(2, 2); !ops[0].Charged || !ops[1].Charged {
			s.Errorf("%s: 2 and 2 of 5 did not pass together", name)
		}
		s.left("k", l, 1)
	}
	l := compiled(s, perHour("twice leased", "concurrency", 1))
	ops := s.take(weir.Op{Key: "k", Limit: l, Cost: 1, ID: 7}, weir.Op{Key: "k", Limit: l, Cost: 1, ID: 7})
	if !ops[0].Charged || !ops[1].Charged {
		s.Error("a lease asked for twice in one request was refused")
	}
	s.left("k", l, 0)
}

func (s *suite) roles() {
	hard := compiled(s, perHour("hard", bucketName, 3))
	soft := compiled(s, perHour("soft", bucketName, 1))
	for i := range 4 {
		ops := s.take(weir.Op{Key: "a", Limit: hard, Cost: 1}, weir.Op{Key: "a", Limit: soft, Cost: 1, Role: weir.Soft})
		if want := i < 3; ops[0].Charged != want || ops[1].Charged != want {
			s.Errorf("soft, request %d: charged %v and %v, want %v", i, ops[0].Charged, ops[1].Charged, want)
		}
		if want := i == 0; ops[1].Decision.Allowed() != want {
			s.Errorf("soft, request %d: below the threshold %v, want %v", i, !want, want)
		}
	}

	tried := compiled(s, perHour("tried", bucketName, 1))
	for i := range 3 {
		ops := s.take(weir.Op{Key: "b", Limit: hard, Cost: 1}, weir.Op{Key: "b", Limit: tried, Cost: 1, Role: weir.Shadow})
		if !ops[0].Charged || ops[1].Charged != (i == 0) {
			s.Errorf("shadow, request %d: charged %v and %v", i, ops[0].Charged, ops[1].Charged)
		}
	}

	own, pool := compiled(s, perHour("own", bucketName, 1)), compiled(s, perHour("pool", bucketName, 3))
	for i, borrowed := range []bool{false, true, true} {
		ops := s.take(weir.Op{Key: "c", Limit: own, Cost: 1, Role: weir.Own}, weir.Op{Key: "", Limit: pool, Cost: 1, Role: weir.Pool})
		if ops[0].Charged == borrowed || !ops[1].Charged || ops[1].Borrowed != borrowed {
			s.Errorf("elastic, request %d: own %s, pool %s", i, answer(&ops[0]), answer(&ops[1]))
		}
	}
	ops := s.take(weir.Op{Key: "c", Limit: own, Cost: 1, Role: weir.Own}, weir.Op{Key: "", Limit: pool, Cost: 1, Role: weir.Pool})
	if ops[0].Charged || ops[1].Charged {
		s.Error("elastic: passed though own share and pool are exhausted")
	}
	// The assured share passes even so, and puts the pool into debt.
	ops = s.take(weir.Op{Key: "d", Limit: own, Cost: 1, Role: weir.Own}, weir.Op{Key: "", Limit: pool, Cost: 1, Role: weir.Pool})
	if !ops[0].Charged || !ops[1].Charged || ops[1].Borrowed {
		s.Errorf("elastic: assured share refused: own %s, pool %s", answer(&ops[0]), answer(&ops[1]))
	}

	// A ban counts the refusals of another limit, then refuses by itself.
	ban := compiled(s, perHour("ban", "lockout", 2))
	one := compiled(s, perHour("one", bucketName, 1))
	for i := range 5 {
		ops := s.take(weir.Op{Key: "e", Limit: ban, Cost: 1, Role: weir.Ban}, weir.Op{Key: "e", Limit: one, Cost: 1})
		if ops[1].Charged != (i == 0) || ops[0].Charged != (i == 1 || i == 2) || ops[0].Decision.Allowed() != (i < 3) {
			s.Errorf("ban, request %d: ban %s, limit %s", i, answer(&ops[0]), answer(&ops[1]))
		}
	}

	// Penalized: refused requests cost too.
	pen := compiled(s, &weir.Limit{Name: "penalized", Algorithm: one.Algorithm, Count: 1, Period: time.Hour})
	var before time.Duration
	for i := range 3 {
		o := s.take(weir.Op{Key: "f", Limit: pen, Cost: 1, Penalize: true})[0]
		if !o.Charged || o.Decision.Allowed() != (i == 0) || i == 1 && o.Decision.ResetAfter <= before {
			s.Errorf("penalize, request %d: %s", i, answer(&o))
		}
		before = o.Decision.ResetAfter
	}

	// What is reserved is kept from this op and left to others.
	res := compiled(s, perHour("reserved", bucketName, 10))
	for i := range 4 {
		o := s.take(weir.Op{Key: "g", Limit: res, Cost: 1, Headroom: 7})[0]
		if o.Charged != (i < 3) {
			s.Errorf("reserve, request %d: %s", i, answer(&o))
		}
	}
	s.left("g", res, 7)

	// Denied without being asked, with all others.
	o := s.take(weir.Op{Key: "h", Limit: res, Cost: 1}, weir.Op{Limit: res, Role: weir.Deny, Answer: weir.Answer{Decision: weir.Decision{Limit: res, RetryAfter: weir.Never}}})
	if o[0].Charged || o[1].Decision.RetryAfter != weir.Never {
		s.Errorf("deny: %s, %s", answer(&o[0]), answer(&o[1]))
	}
	s.left("h", res, 10)
}
