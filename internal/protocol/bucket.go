package protocol

// bucket is a bucket of which nodes fetch units, draw and return them. A unit flows in
// with each tick. All times are in ticks from now. A lot may be drawn until so many have
// flowed in as fetches leave in the bucket, ttl; of a slow bucket, where they leave none, also
// no longer than until it would be whole without the lot.
type bucket struct {
	burst, ttl int8
	slow       bool
	returns    refundRule
	// Breakages.
	loose    bool // fetches are decided by the whole burst
	outlives bool // a lot of a slow bucket lives for its ttl
	late     bool // of a slow bucket a return gives back all but what has flowed in
}

// refundRule is how many units of a return a bucket takes back.
type refundRule int8

const (
	lessInflow refundRule = iota // those that have not flowed in since the charge
	// Breakages.
	byReceipt // at most what is left until the receipt
	allUnits  // all until the receipt
)

type bucketState struct {
	// charged is when the bucket is full again, as the store counts, and drawn as it
	// would be if units were counted when they are drawn, a ghost.
	charged, drawn int8
	lots           [2]bucketLot // one of each node
	messages       [2]bucketMessage
}

// A bucketLot is units that one fetch got. left is how long they may be drawn, age how
// long they have been charged, and receipt when the charge stops to matter.
type bucketLot struct{ free, left, age, receipt int8 }

type bucketMessage struct {
	kind message
	lot  bucketLot
}

// refundableUnits returns how many units of a lot the store takes back. Lots that others have fetched
// after it may live for a ttl, and their end was reckoned with all of it.
func (m bucket) refundableUnits(l bucketLot) int8 {
	switch r := m.returns; {
	case m.slow && !m.late:
		return max(l.free-l.age-m.ttl, 0)
	case r == lessInflow:
		return max(l.free-l.age, 0)
	case r == byReceipt:
		return min(l.free, max(l.receipt, 0))
	case l.receipt > 0:
		return l.free
	}
	return 0
}

func (l bucketLot) ageByTick() bucketLot {
	l.left, l.age, l.receipt = max(l.left-1, 0), l.age+1, max(l.receipt-1, 0)
	return l
}

func (m bucket) Start() bucketState { return bucketState{} }

func (m bucket) Steps(s bucketState, add func(string, bucketState)) {
	n := s
	n.charged, n.drawn = max(s.charged-1, 0), max(s.drawn-1, 0)
	for i, l := range s.lots {
		n.lots[i] = l.ageByTick()
	}
	for i, t := range s.messages {
		if t.kind == fetch {
			n.messages[i].lot.left = max(t.lot.left-1, 0)
		} else {
			n.messages[i].lot = t.lot.ageByTick()
		}
	}
	add("tick", n)
	for units := int8(1); units <= m.burst; units++ {
		n := s
		if addIfRoom(n.messages[:], bucketMessage{fetch, bucketLot{free: units, left: m.ttl + 1}}) {
			add("fetch", n)
		}
	}
	for i, l := range s.lots {
		n := s
		n.lots[i] = bucketLot{}
		if l.free > 0 && addIfRoom(n.messages[:], bucketMessage{returned, l}) {
			add("surrender", n)
		}
		if l.free > 0 && l.left > 0 {
			n := s
			n.lots[i].free--
			n.drawn++
			add("draw", n)
		}
	}
	for i := range s.messages {
		m.deliver(s, i, add)
	}
}

func (m bucket) deliver(s bucketState, i int, add func(string, bucketState)) {
	t := s.messages[i]
	if t.kind == 0 {
		return
	}
	n := s
	n.messages[i] = bucketMessage{}
	add("lose", n)
	switch t.kind {
	case fetch:
		kept := m.ttl
		if m.loose || m.slow {
			kept = 0
		}
		if s.charged+t.lot.free > m.burst-kept {
			return
		}
		n.charged += t.lot.free
		if m.slow && !m.outlives {
			t.lot.left = min(t.lot.left, s.charged+1)
		}
		t.lot.age, t.lot.receipt = 0, n.charged
		n.messages[i] = bucketMessage{grant, t.lot}
		add("serve", n)
	case grant:
		if addIfRoom(n.lots[:], t.lot) {
			add("adopt", n)
		}
	case returned:
		n.charged = max(n.charged-m.refundableUnits(t.lot), 0)
		add("take back", n)
	}
}

func (m bucket) Broken(s bucketState) string {
	if s.drawn > m.burst {
		return "more is drawn at once than the burst"
	}
	return ""
}

func (m bucket) Idle(s bucketState) bool {
	return s.messages == [2]bucketMessage{} && s.lots == [2]bucketLot{}
}

func (m bucket) Canonical(s bucketState) bucketState {
	for i, l := range s.lots {
		s.lots[i] = m.stripLot(l)
	}
	for i, t := range s.messages {
		if t.kind == fetch {
			continue
		}
		t.lot = m.stripLot(t.lot)
		if t.lot == (bucketLot{}) || t.kind == returned && m.refundableUnits(t.lot) == 0 {
			t = bucketMessage{}
		} else if t.kind == returned {
			t.lot.left = 0
		}
		s.messages[i] = t
	}
	key := func(l bucketLot) uint64 { return packNumbers(l.free, l.left, l.age, l.receipt) }
	sortByKey(s.lots[:], key)
	sortByKey(s.messages[:], func(t bucketMessage) uint64 { return packNumbers(int8(t.kind))<<32 | key(t.lot) })
	return s
}

// stripLot takes from a lot what its return does not go by.
func (m bucket) stripLot(l bucketLot) bucketLot {
	if m.returns == lessInflow {
		l.receipt = 0
	} else {
		l.age = 0
	}
	if l.left == 0 && m.refundableUnits(l) == 0 {
		return bucketLot{}
	}
	if l.free == 0 {
		return bucketLot{}
	}
	l.age = min(l.age, m.burst)
	return l
}
