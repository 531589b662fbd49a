package protocol

// price is a bucket whose price of a unit, in ticks, changes with a reload of its rules,
// on one node after the other. It charges time. What matters is the difference of what
// was charged and what was admitted, so no time passes: what flows in ends both alike.
type price struct {
	most int8 // units of time in this difference, a bound of the model
	// Breakages.
	todaysPrice bool // B6: a lot is returned at today's price
	keptNumber  bool // a fetch without an answer is repeated after the price has changed
}

type priceState struct {
	owed     int8 // charged time less that of admitted units
	nodes    [2]priceNode
	messages [3]priceMessage
}

type priceNode struct {
	price int8 // in force
	lots  [2]priced
	// lost is a fetch whose answer was lost, and carried that the store has carried it out.
	lost    priced
	carried bool
}

// A priced lot is units and the price at which the store charged each. paid is the same,
// as the store knows it: a ghost.
type priced struct{ units, price, paid int8 }

type priceMessage struct {
	kind message
	node int8
	lot  priced
}

func (m price) Start() priceState {
	return priceState{nodes: [2]priceNode{{price: 1}, {price: 1}}}
}

func (m price) Steps(s priceState, add func(string, priceState)) {
	for i := range s.nodes {
		m.stepNode(s, i, add)
	}
	for i := range s.messages {
		m.deliver(s, i, add)
	}
}

func (m price) stepNode(s priceState, i int, add func(string, priceState)) {
	here := s.nodes[i]
	add("reload", m.reloadPrice(s, i))
	for units := int8(1); units <= 2; units++ {
		n := s
		if addIfRoom(n.messages[:], priceMessage{fetch, int8(i), priced{units, here.price, 0}}) {
			add("fetch", n)
		}
	}
	if here.lost.units > 0 {
		n := s
		n.nodes[i].lost, n.nodes[i].carried = priced{}, false
		if !here.carried {
			add("repeat, not found", n)
		} else if found := here.lost; addIfRoom(n.nodes[i].lots[:], found) {
			add("repeat, found", n)
		}
	}
	for j, l := range here.lots {
		if l.units == 0 {
			continue
		}
		n := s
		n.nodes[i].lots[j].units--
		n.owed -= l.paid
		add("spend", n)
		n = s
		n.nodes[i].lots[j] = priced{}
		if m.todaysPrice {
			l.price = here.price
		}
		if addIfRoom(n.messages[:], priceMessage{returned, int8(i), l}) {
			add("surrender", n)
		}
	}
}

// reloadPrice changes the price of a node. A lot keeps the price by which it was fetched, and
// a fetch that has no answer is not repeated: its units are others now.
func (m price) reloadPrice(s priceState, i int) priceState {
	n := &s.nodes[i]
	n.price = 3 - n.price
	if m.keptNumber {
		n.lost.price = n.price
		return s
	}
	n.lost, n.carried = priced{}, false
	return s
}

func (m price) deliver(s priceState, i int, add func(string, priceState)) {
	t := s.messages[i]
	n := s
	n.messages[i] = priceMessage{}
	switch t.kind {
	case fetch:
		add("lose", loseAnswer(n, t, false))
		if s.owed+t.lot.units*t.lot.price <= m.most {
			n.owed += t.lot.units * t.lot.price
			t.kind, t.lot.paid = grant, t.lot.price
			n.messages[i] = t
			add("serve", n)
		}
	case grant:
		add("lose", loseAnswer(n, t, true))
		if addIfRoom(n.nodes[t.node].lots[:], t.lot) {
			add("adopt", n)
		}
	case returned:
		add("lose", n)
		n.owed -= t.lot.units * t.lot.price
		add("take back", n)
	}
}

// loseAnswer notes that a fetch has no answer.
func loseAnswer(s priceState, t priceMessage, carried bool) priceState {
	if n := &s.nodes[t.node]; n.lost.units == 0 && n.price == t.lot.price {
		n.lost, n.carried = t.lot, carried
	}
	return s
}

func (m price) Broken(s priceState) string {
	held := int8(0)
	for _, n := range s.nodes {
		for _, l := range n.lots {
			held += l.units * l.paid
		}
	}
	for _, t := range s.messages {
		if t.kind > fetch {
			held += t.lot.units * t.lot.paid
		}
	}
	if s.owed < held {
		return "less time is charged than that of units that are admitted or held"
	}
	return ""
}

func (m price) Idle(s priceState) bool {
	for _, n := range s.nodes {
		if n.lots != [2]priced{} || n.lost.units > 0 {
			return false
		}
	}
	return s.messages == [3]priceMessage{}
}

func (l priced) sortKey() uint64 { return packNumbers(l.units, l.price, l.paid) }

func (m price) Canonical(s priceState) priceState {
	for i := range s.nodes {
		lots := &s.nodes[i].lots
		for j := range lots {
			if lots[j].units == 0 {
				lots[j] = priced{}
			}
		}
		sortByKey(lots[:], priced.sortKey)
	}
	key := func(n priceNode) uint64 {
		both := n.lots[0].sortKey()*257 + n.lots[1].sortKey()
		return both<<16 ^ n.lost.sortKey()<<3 ^ packNumbers(n.price)<<1 ^ uint64(bit(n.carried))
	}
	if key(s.nodes[1]) < key(s.nodes[0]) {
		s.nodes[0], s.nodes[1] = s.nodes[1], s.nodes[0]
		for i := range s.messages {
			if s.messages[i].kind != 0 {
				s.messages[i].node = 1 - s.messages[i].node
			}
		}
	}
	for i := range s.messages {
		if s.messages[i].kind == returned {
			s.messages[i].node = 0
		}
	}
	sortByKey(s.messages[:], func(t priceMessage) uint64 { return packNumbers(int8(t.kind), t.node)<<32 | t.lot.sortKey() })
	return s
}
