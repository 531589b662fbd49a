package protocol

// number is a node that fetches units under numbers, so that a fetch whose answer was lost
// can be repeated. The store carries out the fetch of number n only while its mark is less
// than n, and counts it by the mark in the same call. Numbers are relative to that which
// the node last knew to be counted.
type number struct {
	limit int8
	// Breakages.
	lastAsked   bool // what was not answered is taken for what was asked last, not least
	alwaysSure  bool // a number that another fetch may have is taken for the node's own
	lateAdopted bool // the answer to a fetch that was given up is adopted as well
}

type numberState struct {
	count int8 // of the store
	mark  int8 // above what the node knows
	owned int8 // units that the node has, or has spent: a ghost
	numbered
	flying   bool // a call is under way
	messages [3]numberMessage
}

// numbered is what a node knows of its numbers.
type numbered struct {
	known bool // how many the mark has counted
	sure  bool // no other fetch of the next number is under way but those in lost
	lost  int8 // the least that the fetches of that number asked for which had no answer
}

// miss notes that a fetch of so many units has no answer.
func (n numbered) miss(units int8, sure, last bool) numbered {
	switch {
	case !n.known:
	case !n.sure && !sure:
		return numbered{}
	case n.lost == 0 || last:
		n.lost = units
	default:
		n.lost = min(n.lost, units)
	}
	return n
}

// hear takes over an answer, and returns how many units it brings and whether the mark is
// to be looked at. counted is how many fetches the mark has counted since the node knew.
func (n numbered) hear(charged bool, units, counted int8) (next numbered, gained int8) {
	switch {
	case charged:
		return numbered{known: true, sure: true}, units
	case counted <= 0:
		return n, 0 // the limit has too little
	case n.lost > 0 && counted == 1:
		gained, n.lost = n.lost, 0
		return n, gained
	}
	return numbered{known: true}, 0
}

type numberMessage struct {
	kind    message
	mine    bool // of the call under way
	charged bool // of an answer
	next    int8 // the number, less that which is next; of an answer: what the mark has counted since
	units   int8
}

func (m number) Start() numberState { return numberState{} }

func (m number) Steps(s numberState, add func(string, numberState)) {
	if s.owned > 0 {
		n := s
		n.owned--
		n.count--
		add("turn", n) // a unit that was spent counts no more
	}
	if s.count > s.owned && !s.flying && s.messages == [3]numberMessage{} && s.lost == 0 {
		n := s
		n.count = n.owned
		add("window ends", n) // and with it what nobody has
	}
	if !s.flying {
		m.ask(s, add)
	} else {
		n := s
		for i, t := range s.messages {
			if t.mine {
				n.messages[i].mine = false
				n.flying, n.numbered = false, s.miss(t.units, m.alwaysSure, m.lastAsked)
				if t.kind == grant && !m.lateAdopted {
					n.messages[i] = numberMessage{}
				}
			}
		}
		add("no answer", n)
	}
	for i := range s.messages {
		m.deliver(s, i, add)
	}
}

// ask fetches under the next number, or looks at the mark first.
func (m number) ask(s numberState, add func(string, numberState)) {
	n := s
	if s.lost > 0 {
		n.numbered = numbered{}
		add("give up", n) // after so long that the mark may be forgotten
	} else {
		// The mark of the next epoch has counted nothing, and no fetch goes by it.
		n.messages, n.mark = [3]numberMessage{}, 0
		n.numbered = numbered{known: true, sure: true}
		add("epoch", n)
	}
	if !s.known {
		n := s
		n.rebase(s.mark)
		n.numbered = numbered{known: true, sure: m.alwaysSure}
		add("look", n)
		return
	}
	for units := max(s.lost, 1); units <= m.limit; units++ {
		n := s
		n.flying = true
		if put(n.messages[:], numberMessage{kind: fetch, mine: true, units: units}) {
			add("fetch", n)
		}
	}
}

// rebase counts numbers from what the node has heard of.
func (s *numberState) rebase(counted int8) {
	s.mark -= counted
	for i := range s.messages {
		if s.messages[i].kind != 0 {
			s.messages[i].next -= counted
		}
	}
}

func (m number) deliver(s numberState, i int, add func(string, numberState)) {
	t := s.messages[i]
	n := s
	switch {
	case t.kind == fetch:
		if !t.mine {
			n.messages[i] = numberMessage{}
			add("lose", n)
			n = s
		}
		if s.mark < t.next+1 && s.count+t.units <= m.limit {
			n.mark++
			n.count += t.units
			t.charged = true
		}
		if t.kind, t.next = grant, n.mark; !t.mine && !m.lateAdopted {
			t = numberMessage{}
		}
		n.messages[i] = t
		add("serve", n)
	case t.kind == grant:
		n.messages[i] = numberMessage{}
		if !t.mine {
			n.owned += t.units * bit(t.charged)
			add("adopt late", n)
			return
		}
		var gained int8
		n.flying = false
		n.numbered, gained = s.hear(t.charged, t.units, t.next)
		n.owned += gained
		n.rebase(t.next)
		add("hear", n)
	}
}

func (m number) Broken(s numberState) string {
	if s.owned > s.count {
		return "the node has more than the store counts"
	}
	return ""
}

func (m number) Idle(s numberState) bool {
	return !s.flying && s.lost == 0 && s.count == s.owned && s.messages == [3]numberMessage{}
}

func (m number) Canonical(s numberState) numberState {
	for i, t := range s.messages {
		if t.kind == fetch && !t.mine && s.mark >= t.next+1 {
			s.messages[i] = numberMessage{} // the mark has gone on: it comes too late
		}
	}
	order(s.messages[:], func(t numberMessage) uint64 {
		return pack(int8(t.kind), bit(t.mine), bit(t.charged), t.next, t.units)
	})
	return s
}
