package protocol

// permit is a concurrency limit whose permits nodes fetch, in lots under names of their
// own, and hand out to holders for a period. All times are in ticks from now.
type permit struct {
	limit, period, spare int8
	crash                bool
	// Breakages.
	handedOutLonger bool // B11: a permit is handed out for longer than its lot lives
	grownLot        bool // B11: a lot grows under its name
	lifeFromAnswer  bool
	usedName        bool // a name is used again
}

type permitState struct {
	leases [3]permitLease // on the store: the limit is as many at most
	// orphans have permits of no lot, by what is left of their time: those of a crashed node.
	orphans  holders
	nodes    [2][2]permitLot
	messages [2]permitMessage
}

// permitNames is more names than there can be in use.
const permitNames = 6

// A permitLease is what the store counts under a name. Names are small numbers here, and
// those that nobody knows any more are zero.
type permitLease struct{ name, units, left int8 }

// A permitLot is units that one fetch got.
type permitLot struct {
	name, units, left int8
	out               holders
	lost              bool // the store no longer counts it
}

// holders is how many have a permit that ends in so many ticks, less one.
type holders [2]int8

func (h holders) sum() int8 { return h[0] + h[1] }

func (h holders) ageByTick() holders { return holders{h[1], 0} }

// handOut gives a permit for the period, if the lot has one free and lives as long.
func (l permitLot) handOut(period int8, longer bool) (permitLot, bool) {
	if l.units == l.out.sum() || l.lost || l.left < period && !longer {
		return l, false
	}
	l.out[period-1]++
	return l, true
}

type permitMessage struct {
	kind message
	node int8 // none: nobody waits for the answer
	// renew: the node has the lot. units of zero end the lease.
	renew       bool
	name, units int8
	left        int8 // of a request: less what has passed since it was sent
}

const none = 2

func (m permit) leaseLife() int8 { return m.period + m.spare }

func (m permit) Start() permitState { return permitState{} }

func (m permit) Steps(s permitState, add func(string, permitState)) {
	add("tick", m.passTime(s))
	for i := range s.nodes {
		if m.crash && s.nodes[i] != [2]permitLot{} {
			add("crash", restart(s, i))
		}
		m.fetchLot(s, i, add)
		for j, l := range s.nodes[i] {
			if l.name != 0 {
				m.stepLot(s, i, j, add)
			}
		}
	}
	if s.orphans.sum() > 0 {
		for i := range s.orphans {
			if n := s; n.orphans[i] > 0 {
				n.orphans[i]--
				add("release", n)
			}
		}
	}
	for i := range s.messages {
		m.deliver(s, i, add)
	}
}

func (m permit) passTime(s permitState) permitState {
	for i, l := range s.leases {
		if l.left--; l.left <= 0 {
			l = permitLease{}
		}
		s.leases[i] = l
	}
	s.orphans = s.orphans.ageByTick()
	for i := range s.nodes {
		for j, l := range s.nodes[i] {
			l.left--
			if l.out = l.out.ageByTick(); l.left <= 0 {
				s.orphans[0] += l.out[0]
				l = permitLot{}
			}
			s.nodes[i][j] = l
		}
	}
	for i := range s.messages {
		if t := &s.messages[i]; t.kind != 0 && !m.lifeFromAnswer {
			t.left = max(t.left-1, -m.leaseLife())
		}
	}
	return s
}

// restart is a crash. Holders keep what they have until their time ends.
func restart(s permitState, i int) permitState {
	for _, l := range s.nodes[i] {
		for left, n := range l.out {
			s.orphans[left] += n
		}
	}
	s.nodes[i] = [2]permitLot{}
	for j, t := range s.messages {
		switch {
		case t.kind == 0 || int(t.node) != i:
		case t.kind == grant:
			s.messages[j] = permitMessage{}
		default:
			s.messages[j].node, s.messages[j].left = none, 0
		}
	}
	return s
}

func (m permit) fetchLot(s permitState, i int, add func(string, permitState)) {
	if s.nodes[i][0].name != 0 && s.nodes[i][1].name != 0 {
		return
	}
	for name := int8(1); name <= permitNames; name++ {
		inUse := s.isNamed(name)
		if inUse && !m.usedName || s.hasLotNamed(name) {
			continue
		}
		for units := int8(1); units <= m.limit; units++ {
			n := s
			if addIfRoom(n.messages[:], permitMessage{kind: fetch, node: int8(i), name: name, units: units}) {
				add("fetch", n)
			}
		}
		if !inUse {
			return // one new name is as good as another
		}
	}
}

// isNamed reports whether anybody uses a name.
func (s *permitState) isNamed(name int8) bool {
	for _, l := range s.leases {
		if l.name == name {
			return true
		}
	}
	for _, t := range s.messages {
		if t.name == name {
			return true
		}
	}
	return s.hasLotNamed(name)
}

// hasLotNamed reports whether a node has a lot of a name.
func (s *permitState) hasLotNamed(name int8) bool {
	for _, lots := range s.nodes {
		if lots[0].name == name || lots[1].name == name {
			return true
		}
	}
	return false
}

// stepLot is what a node does with a lot.
func (m permit) stepLot(s permitState, i, j int, add func(string, permitState)) {
	l := s.nodes[i][j]
	if out, ok := l.handOut(m.period, m.handedOutLonger); ok {
		n := s
		n.nodes[i][j] = out
		add("acquire", n)
	}
	for left := range l.out {
		if l.out[left] > 0 {
			n := s
			n.nodes[i][j].out[left]--
			add("release", n)
		}
	}
	if !l.lost {
		n := s
		if addIfRoom(n.messages[:], permitMessage{kind: fetch, node: int8(i), renew: true, name: l.name, units: l.units}) {
			add("renew", n)
		}
		n = s
		if m.grownLot && l.units < m.limit && addIfRoom(n.messages[:], permitMessage{kind: fetch, node: int8(i), renew: true, name: l.name, units: l.units + 1}) {
			add("grow", n)
		}
	}
	if l.units > l.out.sum() {
		n := s
		l.units--
		if n.nodes[i][j] = l; l.units == 0 {
			n.nodes[i][j] = permitLot{}
		}
		if addIfRoom(n.messages[:], permitMessage{kind: fetch, node: none, renew: true, name: l.name, units: l.units}) {
			add("shrink", n)
		}
	}
}

func (m permit) deliver(s permitState, i int, add func(string, permitState)) {
	t := s.messages[i]
	if t.kind == 0 {
		return
	}
	n := s
	n.messages[i] = permitMessage{}
	add("lose", n)
	if t.node != none && !t.renew {
		// Nobody waits any longer: the lease is ended by its name, since it may have
		// been granted.
		end := n
		addIfRoom(end.messages[:], permitMessage{kind: fetch, node: none, renew: true, name: t.name})
		if t.kind == fetch {
			t := t
			t.node, t.left = none, 0
			if addIfRoom(end.messages[:], t) {
				add("give up", end)
			}
		} else {
			add("give up", end)
		}
	}
	if t.kind == fetch {
		granted := m.serveMessage(&n, t)
		if t.node != none {
			t.kind, t.left = grant, t.left+m.leaseLife()
			if !granted {
				t.units = 0
			}
			n.messages[i] = t
		}
		add("serve", n)
		return
	}
	m.hearAnswer(&n, t)
	add("hear", n)
}

// serveMessage grants units under a name if they are free, or ends its lease.
func (m permit) serveMessage(s *permitState, t permitMessage) bool {
	others, at := int8(0), -1
	for i, l := range s.leases {
		switch {
		case l.name == t.name && l.units > 0:
			at = i
		default:
			others += l.units
		}
	}
	if t.units == 0 {
		if at >= 0 {
			s.leases[at] = permitLease{}
		}
		return false
	}
	if others+t.units > m.limit {
		return false
	}
	if at < 0 {
		return addIfRoom(s.leases[:], permitLease{t.name, t.units, m.leaseLife()})
	}
	s.leases[at] = permitLease{t.name, t.units, m.leaseLife()}
	return true
}

// hearAnswer takes over an answer.
func (m permit) hearAnswer(s *permitState, t permitMessage) {
	lots := &s.nodes[t.node]
	if !t.renew {
		if t.units > 0 && t.left > 0 {
			addIfRoom(lots[:], permitLot{name: t.name, units: t.units, left: t.left})
		}
		return
	}
	for i := range lots {
		if l := &lots[i]; l.name == t.name {
			if l.lost = l.lost || t.units == 0; !l.lost {
				l.left = max(l.left, t.left)
				if m.grownLot {
					l.units = max(l.units, t.units)
				}
			}
		}
	}
}

func (m permit) Broken(s permitState) string {
	out := s.orphans.sum()
	for _, lots := range s.nodes {
		out += lots[0].out.sum() + lots[1].out.sum()
	}
	if out > m.limit {
		return "more permits are held than the limit"
	}
	return ""
}

func (m permit) Idle(s permitState) bool {
	return s.messages == [2]permitMessage{} && s.nodes == [2][2]permitLot{} && s.leases == [3]permitLease{}
}

func (m permit) Canonical(s permitState) permitState {
	lotKey := func(l permitLot) uint64 { return packNumbers(l.units, l.left, l.out[0], l.out[1], bit(l.lost)) }
	for i := range s.nodes {
		sortByKey(s.nodes[i][:], lotKey)
	}
	key := func(lots [2]permitLot) uint64 { return lotKey(lots[0])*1_000_003 + lotKey(lots[1]) }
	if key(s.nodes[1]) < key(s.nodes[0]) {
		s.nodes[0], s.nodes[1] = s.nodes[1], s.nodes[0]
		for i := range s.messages {
			if t := &s.messages[i]; t.kind != 0 && t.node != none {
				t.node = 1 - t.node
			}
		}
	}
	for i, t := range s.messages {
		if t.kind == grant && !t.renew && t.units == 0 {
			s.messages[i] = permitMessage{}
		}
	}
	// Names are numbered anew, in the order of what uses them.
	var names [permitNames + 1]int8
	next := int8(1)
	rename := func(name int8) int8 {
		if name != 0 && names[name] == 0 {
			names[name] = next
			next++
		}
		return names[name]
	}
	for i := range s.nodes {
		for j := range s.nodes[i] {
			s.nodes[i][j].name = rename(s.nodes[i][j].name)
		}
	}
	sortByKey(s.messages[:], func(t permitMessage) uint64 {
		return packNumbers(int8(t.kind), t.node, bit(t.renew), t.units, t.left, names[t.name])
	})
	for i := range s.messages {
		s.messages[i].name = rename(s.messages[i].name)
	}
	for i := range s.leases {
		if l := &s.leases[i]; l.name != 0 && (names[l.name] != 0 || m.usedName) {
			l.name = rename(l.name)
		} else {
			l.name = 0 // nobody can name it any more
		}
	}
	sortByKey(s.leases[:], func(l permitLease) uint64 { return packNumbers(l.name, l.units, l.left) })
	return s
}
