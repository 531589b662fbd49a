package protocol

// outage is a shard that goes away and comes back, again and again, and a node that
// decides by its share of a limit meanwhile and owes what it has admitted. A payment sets a
// mark beside what it charges, and charges nothing where the mark is set: so one without an
// answer is made again until it has one, or is given up.
type outage struct {
	limit int8
	// Breakages.
	shareBackFirst bool // B12: the share goes back before the debt is acknowledged
	openIsPaid     bool // a payment that was not sent, as the breaker is open, is read as settled
	newShare       bool // an outage while the node owes begins with a new share
	backWhileInUse bool // the share goes back while a decision by it is under way
	paidAgain      bool // a payment without an answer is made again without a mark
	markForgotten  bool // it is made again under another mark
}

type outageState struct {
	up    bool
	count int8 // on the store
	gone  int8 // as the node last knew
	share
	users   int8 // decisions under way by the share
	payment int8
	state   payment
	marked  bool // the payment was carried out
	stray   int8 // of an earlier call of the payment, which comes late
	isOld   bool // the payment of that was given up
	back    int8 // units to be returned, as they were given back while they were paid
	// Ghosts: units admitted by the share in this outage, and all that were and that the
	// store does not count; less than none: it counts too much.
	byShare, uncounted int8
}

// A share is what a node may admit of a key while the store is away.
type share struct {
	phase phase
	// used is how much of it is: what was known to be gone at first, what was admitted,
	// and what perhaps the store does not count, unsure.
	seed, used, unsure, debt int8
	lost                     int8 // counted as such
}

type phase int8

const (
	present phase = iota // the store decides
	out                  // the share does
	owing                // the store does, and debts are to be paid
)

type payment int8

const (
	unpaid payment = iota
	sent
	carriedOut
	unheard // it is to be made again
)

// beginOutage begins an outage: a new one with what is known to be gone, else with what it was.
func (h share) beginOutage(gone int8, anew bool) share {
	if h.phase == present || anew {
		h.seed, h.used = gone, gone+h.unsure
	}
	h.phase = out
	return h
}

// admitUnit takes a unit of the share, if it has one.
func (h share) admitUnit(limit int8) (share, bool) {
	if h.used >= limit {
		return h, false
	}
	h.used++
	h.debt++
	return h, true
}

// acknowledge ends a debt of so many units, and returns how many of them were not owed
// any more. The share goes back with the last.
func (h share) acknowledge(units int8, inUse bool) (next share, rest int8) {
	rest = max(units-h.debt, 0)
	h.debt -= units - rest
	return h.returnIfPaid(inUse), rest
}

// loseDebt ends a debt of which nobody knows whether the store counts it: the share stays
// used by it.
func (h share) loseDebt(units int8, inUse bool) share {
	units = min(units, h.debt)
	h.debt -= units
	h.unsure += units
	h.lost += units
	return h.returnIfPaid(inUse)
}

// returnIfPaid gives the share back if nothing is owed.
func (h share) returnIfPaid(inUse bool) share {
	if h.debt == 0 && !inUse && h.phase == owing {
		h.phase, h.seed, h.used = present, 0, h.unsure
	}
	return h
}

func (m outage) Start() outageState { return outageState{up: true} }

func (m outage) Steps(s outageState, add func(string, outageState)) {
	n := s
	n.up = !s.up
	add("go or come", n)
	switch {
	case s.phase != out && s.up:
		n := s
		if n.gone = s.count; s.count < m.limit {
			n.count++
			n.gone++
		}
		add("decide", n)
	case s.phase != out:
		n := s
		if s.phase == present {
			n.byShare = 0
		}
		n.share = s.beginOutage(s.gone, m.newShare)
		add("call fails", n)
	case s.up:
		n := s
		n.phase = owing
		add("breaker closes", n)
	}
	if s.phase == out && s.users < 2 {
		n := s
		n.users++
		add("begin by share", n)
	}
	if s.users > 0 {
		n := s
		n.users--
		if h, ok := s.admitUnit(m.limit); ok && s.phase != present {
			n.share = h
			n.byShare++
			n.uncounted++
		} else if s.phase == present && m.backWhileInUse && s.used < m.limit {
			n.used++
			n.byShare++
			n.uncounted++
		}
		add("end by share", n)
	}
	if s.debt > 0 && s.used > s.seed {
		n := s
		n.debt--
		n.used--
		n.byShare--
		n.uncounted--
		add("give back", n)
	}
	m.payDebts(s, add)
}

// payDebts is what becomes of debts.
func (m outage) payDebts(s outageState, add func(string, outageState)) {
	inUse := s.users > 0 && !m.backWhileInUse
	n := s
	switch {
	case s.phase == out && m.openIsPaid && s.debt > 0 && s.state == unpaid:
		n.phase = owing
		n.share, _ = n.acknowledge(s.debt, inUse)
		add("pay, breaker open", n)
	case s.phase == owing && s.state == unpaid && s.debt > 0 && s.back == 0:
		n.state, n.payment = sent, s.debt
		if m.shareBackFirst {
			n.used = s.unsure
		}
		add("pay", n)
	case s.phase == owing && s.state == unpaid && !inUse:
		n.share = s.returnIfPaid(inUse)
		add("nothing owed", n)
	}
	m.repeatPayment(s, inUse, add)
	if s.back > 0 && s.up {
		n := s
		n.count -= s.back
		n.uncounted += s.back
		n.back = 0
		add("return", n)
	}
}

// repeatPayment is what becomes of a payment that was begun.
func (m outage) repeatPayment(s outageState, inUse bool, add func(string, outageState)) {
	serve := func(n *outageState, units int8) {
		if !n.marked || m.paidAgain {
			n.marked = true
			n.count += units
			n.uncounted -= units
		}
	}
	late := func(n outageState) outageState {
		n.state = unheard
		return n
	}
	n := s
	switch s.state {
	case sent:
		if s.marked || s.stray > 0 && !s.isOld {
			n.state = unheard
		} else {
			n.state, n.payment = unpaid, 0
		}
		add("payment fails", n)
		add("payment lost", late(s))
		if n = late(s); s.stray == 0 {
			n.stray, n.isOld = s.payment, false
			add("payment late", n)
		}
		if n = s; s.up {
			serve(&n, s.payment)
			n.state = carriedOut
			add("payment served", n)
		}
	case carriedOut:
		add("answer lost", late(s))
		var rest int8
		n.share, rest = s.acknowledge(s.payment, inUse)
		n.back = s.back + rest
		n.gone = max(n.gone, n.count)
		if n.state, n.payment, n.marked = unpaid, 0, false; !s.isOld {
			n.stray = 0 // the mark stays, and keeps it out
		}
		add("payment answered", n)
	case unheard:
		if s.phase == owing {
			n.state, n.marked = sent, s.marked && !m.markForgotten
			add("pay again", n)
			n = s
		}
		n.share = s.loseDebt(s.payment, inUse)
		// Units that were given back while they were paid stay counted.
		if !s.isOld {
			n.stray = min(s.stray, s.debt)
		}
		if s.marked {
			n.uncounted += max(s.payment-s.debt, 0)
			n.stray = s.stray * bit(s.isOld)
		}
		n.state, n.payment, n.marked, n.isOld = unpaid, 0, false, n.stray > 0
		add("give up", n)
	}
	if n = s; s.stray > 0 {
		if n.stray, n.isOld = 0, false; s.up && s.isOld {
			n.count += s.stray
			n.uncounted -= s.stray
			add("stray served", n)
		} else if s.up {
			serve(&n, s.stray)
			add("stray served", n)
		}
	}
}

func (m outage) Broken(s outageState) string {
	switch {
	case s.phase != present && s.byShare > m.limit-s.seed:
		return "more is admitted by the share in one outage than was left"
	case s.uncounted > m.limit:
		return "more is admitted by the share, and not counted, than the limit"
	case s.uncounted > s.debt+s.lost:
		return "the node owes more than it knows"
	case s.uncounted < -s.payment-s.back-s.lost:
		return "the store was paid more than was owed"
	}
	return ""
}

func (m outage) Idle(s outageState) bool {
	return s.up && s.phase == present && s.users == 0 && s.state == unpaid && s.back == 0
}

// Canonical returns s: there is one node. Counts above the limit are alike to it.
func (m outage) Canonical(s outageState) outageState {
	s.count = min(s.count, 2*m.limit)
	s.gone = min(s.gone, m.limit)
	return s
}
