package protocol

// lease is a window of a few units that nodes fetch, spend and return. Times are in
// ticks: the phase by the store's clock, what is left of a lot by its node's.
type lease struct {
	limit, window int8
	// margin is by how much a lot ends early.
	margin int8
	// What may happen: nodes crash, the store fails over to a replica that lags behind,
	// a node's clock loses a tick in the length of a window, a node is suspended.
	crash, failOver, drift, suspend bool
	// Breakages.
	lifeFromAnswer  bool // B1: a lot's life counts from the answer
	checkedOnce     bool // B2: expiry is looked at when a lot is added, not when it is drawn from
	sleepUnnoticed  bool // B3: the clock stands in a suspend, and nobody notices
	flightsSurvive  bool // time that was lost ends lots, and not the fetches under way
	resentReturn    bool // B4: a return without an answer is sent again
	lateReturn      bool // B5: a return is taken after its window
	returnedFetched bool // all that was fetched goes back, not what is free
}

// A lot is units that one fetch got. left is how long they may be drawn, and old that
// they were counted in a window before.
type lot struct {
	free, fetched, left int8
	old                 bool
}

// drawUnit takes a unit, if the lot has one.
func (l lot) drawUnit(checked bool) (lot, bool) {
	if l.free == 0 || l.left <= 0 && checked {
		return l, false
	}
	l.free--
	return l, true
}

// ageByTicks lets ticks of the node's clock pass.
func (l lot) ageByTicks(ticks int8) lot {
	l.left = max(l.left-ticks, 0)
	return l
}

// mergedWith adds the units of another lot: neither may outlive the other's, nor seem to have
// been counted later.
func (l lot) mergedWith(o lot) lot {
	if l.free == 0 {
		return o
	}
	return lot{l.free + o.free, l.fetched + o.fetched, min(l.left, o.left), l.old || o.old}
}

type leaseState struct {
	phase         int8
	count, backup int8 // of the present window, on the store and its replica
	failed        bool // over, in this window
	// Ghosts, of the present window.
	admitted, lost int8
	nodes          [2]leaseNode
	messages       [2]leaseMessage
}

type leaseNode struct {
	lots   [2]lot
	steady int8 // ticks until its clock may lose one again
	asleep bool // its clock has lost time, and the node has not looked
}

type leaseMessage struct {
	kind message
	node int8 // 2: of one that has crashed
	lot  lot  // of a request: left is less what has passed since it was sent
}

// message is what kind of message one is.
type message int8

const (
	fetch message = iota + 1
	grant
	returned
)

const crashed = 2

func (m lease) Start() leaseState { return leaseState{} }

func (m lease) Steps(s leaseState, add func(string, leaseState)) {
	m.passTime(s, add)
	for i := range s.nodes {
		m.stepNode(s, i, add)
	}
	for i := range s.messages {
		m.deliver(s, i, add)
	}
	if m.failOver && !s.failed {
		if s.backup != s.count {
			n := s
			n.backup = s.count
			add("replicate", n)
		}
		n := s
		n.failed, n.count = true, s.backup
		n.lost += max(s.count-s.backup, 0)
		add("fail over", n)
	}
}

// passTime lets time pass, by all clocks or without that of one node.
func (m lease) passTime(s leaseState, add func(string, leaseState)) {
	s.phase++
	if s.phase == m.window {
		s.phase, s.count, s.backup, s.failed, s.admitted, s.lost = 0, 0, 0, false, 0, 0
		for i := range s.messages {
			if s.messages[i].kind > fetch {
				s.messages[i].lot.old = true
			}
		}
		for i := range s.nodes {
			for j := range s.nodes[i].lots {
				s.nodes[i].lots[j].old = true
			}
		}
	}
	add("tick", m.ageLots(s, 1, 1))
	for i := range s.nodes {
		ran := [2]int8{1, 1}
		ran[i] = 0
		if m.drift && s.nodes[i].steady == 0 {
			n := m.ageLots(s, ran[0], ran[1])
			n.nodes[i].steady = m.window
			add("tick, a slow clock", n)
		}
		if m.suspend {
			n := m.ageLots(s, ran[0], ran[1])
			n.nodes[i].asleep = !m.sleepUnnoticed
			add("tick, suspended", n)
		}
	}
}

// ageLots lets ticks of the nodes' clocks pass.
func (m lease) ageLots(s leaseState, ticks ...int8) leaseState {
	for i := range s.nodes {
		n := &s.nodes[i]
		n.steady = max(n.steady-1, 0)
		for j := range n.lots {
			n.lots[j] = n.lots[j].ageByTicks(ticks[i])
		}
	}
	for i := range s.messages {
		t := &s.messages[i]
		if t.kind == fetch || t.kind == grant {
			if t.node != crashed && !m.lifeFromAnswer {
				t.lot.left = max(t.lot.left-ticks[t.node], -m.window)
			}
		}
	}
	return s
}

// stepNode is what a node does.
func (m lease) stepNode(s leaseState, i int, add func(string, leaseState)) {
	if m.crash {
		n := s
		n.nodes[i] = leaseNode{}
		for j, t := range n.messages {
			switch {
			case int(t.node) == i && t.kind == fetch:
				n.messages[j] = leaseMessage{kind: fetch, node: crashed, lot: lot{free: t.lot.free}}
			case int(t.node) == i && t.kind == grant:
				n.messages[j] = leaseMessage{}
			}
		}
		add("crash", n)
	}
	if s.nodes[i].asleep {
		// Whatever a node does, it looks at the clocks first.
		add("notice", m.noticeLostTime(s, i))
		return
	}
	for units := int8(1); units <= m.limit; units++ {
		n := s
		if addIfRoom(n.messages[:], leaseMessage{kind: fetch, node: int8(i), lot: lot{free: units}}) {
			add("fetch", n)
		}
	}
	for j, l := range s.nodes[i].lots {
		if drawn, ok := l.drawUnit(!m.checkedOnce); ok {
			n := s
			n.nodes[i].lots[j] = drawn
			n.admitted++
			add("spend", n)
		}
		if l.free > 0 {
			n := s
			n.nodes[i].lots[j] = lot{}
			back := leaseMessage{kind: returned, lot: lot{free: l.free, old: l.old}}
			if m.returnedFetched {
				back.lot.free = l.fetched
			}
			if addIfRoom(n.messages[:], back) {
				add("surrender", n)
			}
		}
	}
}

// noticeLostTime ends all lots of a node, and the fetches under way, since time was lost.
func (m lease) noticeLostTime(s leaseState, i int) leaseState {
	n := &s.nodes[i]
	n.asleep = false
	for j := range n.lots {
		n.lots[j].left = 0
	}
	for j := range s.messages {
		if t := &s.messages[j]; int(t.node) == i && (t.kind == fetch || t.kind == grant) && !m.flightsSurvive {
			t.lot.left = -m.window
		}
	}
	return s
}

// deliver is what becomes of a message.
func (m lease) deliver(s leaseState, i int, add func(string, leaseState)) {
	t := s.messages[i]
	if t.kind == 0 {
		return
	}
	n := s
	n.messages[i] = leaseMessage{}
	add("lose", n)
	switch t.kind {
	case fetch:
		if s.count+t.lot.free > m.limit {
			return // a refusal, which changes nothing
		}
		n.count += t.lot.free
		if t.node != crashed {
			t.kind = grant
			t.lot.left += m.window - s.phase - m.margin
			if m.returnedFetched {
				t.lot.fetched = t.lot.free
			}
			n.messages[i] = t
		}
		add("serve", n)
	case grant:
		if t.lot.left > 0 && !s.nodes[t.node].asleep {
			lots := &n.nodes[t.node].lots
			j := 0
			if lots[0].free > 0 {
				j = 1
			}
			lots[j] = lots[j].mergedWith(t.lot)
			add("adopt", n)
		}
	case returned:
		if !t.lot.old || m.lateReturn {
			n.count = max(n.count-t.lot.free, 0)
		}
		add("take back", n)
		if m.resentReturn {
			n.messages[i] = t
			add("take back, unanswered", n)
		}
	}
}

func (m lease) Broken(s leaseState) string {
	held := s.admitted
	for _, n := range s.nodes {
		for _, l := range n.lots {
			if !l.old {
				held += l.free
			}
		}
	}
	for _, t := range s.messages {
		if t.kind > fetch && !t.lot.old {
			held += t.lot.free
		}
	}
	switch {
	case s.admitted > m.limit+s.lost:
		return "more is admitted than the limit and what the store has lost"
	case s.count+s.lost < held:
		return "the store counts less than was admitted and is held"
	}
	return ""
}

func (m lease) Idle(s leaseState) bool {
	for _, n := range s.nodes {
		if n.asleep || n.lots != [2]lot{} {
			return false
		}
	}
	return s.messages == [2]leaseMessage{}
}

// forgets reports whether nothing becomes of units once their window is over.
func (m lease) forgets() bool { return !m.lateReturn && !m.checkedOnce }

func (l lot) sortKey() uint64 { return packNumbers(l.free, l.fetched, l.left, bit(l.old)) }

func (m lease) Canonical(s leaseState) leaseState {
	for i := range s.nodes {
		lots := &s.nodes[i].lots
		for j, l := range lots {
			if l.free == 0 || l.old && l.left == 0 && m.forgets() {
				lots[j] = lot{}
			}
		}
		sortByKey(lots[:], lot.sortKey)
	}
	for i, t := range s.messages {
		switch {
		case t.kind == fetch && t.lot.left <= -m.window:
			s.messages[i] = leaseMessage{kind: fetch, node: crashed, lot: lot{free: t.lot.free}}
		case t.kind == grant && t.lot.left <= 0, t.kind == returned && t.lot.old && m.forgets():
			s.messages[i] = leaseMessage{}
		}
	}
	key := func(n leaseNode) uint64 {
		n.lots[0].fetched += n.steady<<2 | bit(n.asleep)<<5
		return n.lots[0].sortKey()<<32 | n.lots[1].sortKey()
	}
	if key(s.nodes[1]) < key(s.nodes[0]) {
		s.nodes[0], s.nodes[1] = s.nodes[1], s.nodes[0]
		for i := range s.messages {
			if t := &s.messages[i]; t.kind != 0 && t.kind != returned && t.node != crashed {
				t.node = 1 - t.node
			}
		}
	}
	sortByKey(s.messages[:], func(t leaseMessage) uint64 { return packNumbers(int8(t.kind), t.node)<<32 | t.lot.sortKey() })
	return s
}
