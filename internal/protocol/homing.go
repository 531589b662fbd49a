package protocol

// homing is a cost that is charged once to a key of a ring, whose own server is lost now and
// then: meanwhile another server has the key, and charges it for itself. A call without an
// answer is made again under its number where it was made first, and waits while the key is
// elsewhere. One that was made first where the key is away comes home with the key, where no
// call of its series has been: it is the first of another one.
type homing struct {
	moved bool // the key is with the other at first
	// Breakages.
	stays  bool // a call waits for the key to be away again
	strays bool // a call goes along to the other server
	keeps  bool // a call comes home under its old number
}

// A homingState has the servers of the key: its own, and the other.
type homingState struct {
	lost, begun, waits, over bool
	trips                    int8 // how often the own server is lost from now on
	at, series               int8 // where the call is made again, and under which series
	marks                    [2][2]int8
	charged                  [2]int8 // a ghost
	calls                    [2]homingCall
}

// A homingCall is on its way to a server, or its answer on the way back.
type homingCall struct {
	kind           message
	mine           bool // it is waited for
	server, series int8
}

// dones are how many calls of a series are over: one of the first has been before.
var dones = [2]int8{1, 0}

func (m homing) Start() homingState { return homingState{lost: m.moved, trips: 1} }

func (m homing) Steps(s homingState, add func(string, homingState)) {
	n := s
	switch n.lost = !s.lost; {
	case s.lost:
		add("return", n)
	case s.trips > 0:
		n.trips--
		add("leave", n)
	}
	if !s.waits && !s.over {
		m.sendCall(s, add)
	}
	if n := s; s.waits {
		n.waits = false
		for i := range n.calls {
			n.calls[i].mine = false
		}
		add("give up", n)
	}
	for i, c := range s.calls {
		n := s
		if n.calls[i] = (homingCall{}); c.kind == 0 {
			continue
		}
		if !c.mine {
			add("lose", n)
		}
		if c.kind == grant {
			n.over, n.waits = n.over || c.mine, n.waits && !c.mine
			add("hear", n)
			continue
		}
		if mark := &n.marks[c.server][c.series]; *mark <= dones[c.series] {
			*mark++
			n.charged[c.server]++
		}
		c.kind = grant
		n.calls[i] = c
		add("serve", n)
	}
}

// sendCall makes the call, or makes it again.
func (m homing) sendCall(n homingState, add func(string, homingState)) {
	here := bit(n.lost)
	switch {
	case !n.begun:
		n.begun, n.at, n.marks[here][0] = true, here, dones[0]
	case n.at == here:
	case here == 0 && !m.stays:
		if n.at = here; !m.keeps {
			n.series = 1
		}
	case here == 0 || !m.strays:
		return
	}
	n.waits = true
	if addIfRoom(n.calls[:], homingCall{kind: fetch, mine: true, server: here, series: n.series}) {
		add("send", n)
	}
}

func (m homing) Broken(s homingState) string {
	switch {
	case max(s.charged[0], s.charged[1]) > 1:
		return "a server charges twice"
	case s.over && s.charged[s.at] == 0:
		return "nobody has charged what is said to be"
	}
	return ""
}

func (m homing) Idle(s homingState) bool { return s.over && s.calls == [2]homingCall{} }

func (m homing) Canonical(s homingState) homingState {
	sortByKey(s.calls[:], func(c homingCall) uint64 { return packNumbers(int8(c.kind), bit(c.mine), c.server, c.series) })
	return s
}
