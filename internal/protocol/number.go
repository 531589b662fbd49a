package protocol

// number is a node that fetches units under numbers, so that a fetch whose answer was lost
// can be repeated. The store carries out the n-th fetch of a series only while its mark is
// less than n, and counts it by the mark in the same call. A series that is given up is
// never gone on with: the next one has a mark of its own. Numbers are relative to the
// fetches that are over.
type number struct {
	limit int8
	// Breakages.
	lastAsked   bool // what was not answered is taken for what was asked last, not least
	oldMark     bool // the next series has the mark of the one before
	lateAdopted bool // the answer to a fetch that was given up is adopted as well
}

type numberState struct {
	count    int8 // of the store
	mark     int8 // above the fetches that are over
	owned    int8 // units that the node has, or has spent: a ghost
	lost     int8 // the least that the fetches of the number asked for which had no answer
	flying   bool // a call is under way
	messages [3]numberMessage
}

type numberMessage struct {
	kind    message
	mine    bool // of the call under way
	old     bool // of a series that was given up
	charged bool // of an answer
	next    int8 // the number, less that which is next; of an answer: the mark
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
		m.fetchNext(s, add)
	} else {
		n := s
		for i, t := range s.messages {
			if t.mine {
				n.messages[i].mine = false
				if n.flying = false; n.lost == 0 || m.lastAsked {
					n.lost = t.units
				} else {
					n.lost = min(n.lost, t.units)
				}
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

// fetchNext fetches under the next number, or begins another series.
func (m number) fetchNext(s numberState, add func(string, numberState)) {
	n := s
	if n.lost = 0; !m.oldMark {
		n.mark = 0
		for i := range n.messages {
			n.messages[i].old = n.messages[i].kind != 0
		}
	}
	add("give up", n) // after so long that the mark may be forgotten
	for units := max(s.lost, 1); units <= m.limit; units++ {
		n := s
		n.flying = true
		if addIfRoom(n.messages[:], numberMessage{kind: fetch, mine: true, units: units}) {
			add("fetch", n)
		}
	}
}

// endFetch ends a fetch: numbers are counted from the next one.
func (s *numberState) endFetch() {
	s.lost = 0
	s.mark--
	for i := range s.messages {
		if t := &s.messages[i]; t.kind != 0 && !t.old {
			t.next--
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
		// The marks of series that were given up let pass whatever comes: more is counted.
		if (t.old || s.mark < t.next+1) && s.count+t.units <= m.limit {
			if n.count += t.units; !t.old {
				n.mark++
			}
			t.charged = true
		}
		if t.kind, t.next = grant, n.mark; !t.mine && (t.old || !m.lateAdopted) {
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
		switch n.flying = false; {
		case t.charged:
			n.owned += t.units
			n.endFetch()
		case t.next > 0: // it was carried out before
			n.owned += s.lost
			n.endFetch()
		}
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
		if t.kind == fetch && !t.mine && !t.old && s.mark >= t.next+1 {
			s.messages[i] = numberMessage{} // the mark has gone on: it comes too late
		}
	}
	sortByKey(s.messages[:], func(t numberMessage) uint64 {
		return packNumbers(int8(t.kind), bit(t.mine)|bit(t.old)<<1, bit(t.charged), t.next, t.units)
	})
	return s
}
