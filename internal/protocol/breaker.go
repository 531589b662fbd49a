package protocol

// breaker is the circuit breaker of one shard, which carries out one call at a time, and
// the callers who wait for it. Times are in ticks.
type breaker struct {
	budget, timeout int8
	failures        int8 // in a row open it
	// Breakages.
	callersCount       bool // B12: a caller that leaves counts as a failure
	queueCounts        bool // so does a call that was never sent
	backgroundByBudget bool // what nobody waits for is judged by the budget
}

type breakerState struct {
	stalled bool // the shard does not answer; if not, it does so in time
	open    bool
	row     int8 // failures in a row
	real    int8 // those of them that the shard is to blame for: a ghost
	calls   [3]breakerCall
}

// A breakerCall is one that was sent, or waits. age is how long it has done so.
type breakerCall struct {
	made, sent, background bool
	left, noted            bool // its caller has left; it was noted as late
	age                    int8
}

// allowance is how long the shard may take.
func (m breaker) allowance(c breakerCall) int8 {
	if c.background && !m.backgroundByBudget {
		return m.timeout
	}
	return m.budget
}

func (m breaker) Start() breakerState { return breakerState{} }

func (m breaker) Steps(s breakerState, add func(string, breakerState)) {
	n := s
	n.stalled = !s.stalled
	add("stall or go on", n)
	if s.open && !s.stalled {
		n := s
		n.open, n.row, n.real = false, 0, 0
		add("probe", n)
	}
	if m.mayTick(s) {
		n := s
		for i, c := range s.calls {
			if c.made {
				n.calls[i].age = min(c.age+1, m.timeout+1)
			}
		}
		add("tick", n)
	}
	for _, background := range []bool{false, true} {
		n := s
		if !s.open && addIfRoom(n.calls[:], breakerCall{made: true, background: background}) {
			add("call", n)
		}
	}
	for i, c := range s.calls {
		if c.made {
			m.followCall(s, i, c, add)
		}
	}
}

// mayTick reports whether time may pass: a shard that is not stalled answers in time.
func (m breaker) mayTick(s breakerState) bool {
	for _, c := range s.calls {
		honest := m.budget
		if c.background {
			honest = m.timeout
		}
		if c.sent && !s.stalled && c.age >= honest {
			return false
		}
	}
	return true
}

// followCall is what becomes of a call.
func (m breaker) followCall(s breakerState, i int, c breakerCall, add func(string, breakerState)) {
	busy, late := false, false
	for _, o := range s.calls {
		busy = busy || o.sent
		late = late || o.sent && o.age > m.allowance(o)
	}
	n := s
	if !c.sent && !busy {
		n.calls[i].sent, n.calls[i].age = true, 0
		add("send", n)
	}
	if n := s; !c.sent && c.age > m.budget {
		// The shard is to blame if what is before this call is late.
		n.calls[i] = breakerCall{}
		if late || m.queueCounts {
			n = m.recordFailure(n, late)
		}
		add("unsent", n)
	}
	if n := s; c.sent && !s.stalled {
		n.calls[i] = breakerCall{}
		if !n.open {
			n.row, n.real = 0, 0
		}
		add("answer", n)
	}
	if n := s; c.sent && !c.noted && c.age > m.allowance(c) {
		n.calls[i].noted = true
		add("judge", m.recordFailure(n, c.age > m.timeout || !c.background))
	}
	if n := s; c.noted && s.stalled && c.age > m.timeout {
		n.calls[i] = breakerCall{}
		add("connection closed", n)
	}
	if n := s; !c.left && !c.background {
		n.calls[i].left = true
		if m.callersCount {
			n = m.recordFailure(n, false)
		}
		add("leave", n)
	}
}

// recordFailure notes a failure; real: the shard is to blame for it.
func (m breaker) recordFailure(s breakerState, real bool) breakerState {
	if s.open {
		return s
	}
	s.row++
	s.real += bit(real)
	s.open = s.row >= m.failures
	return s
}

func (m breaker) Broken(s breakerState) string {
	if s.open && s.real < m.failures {
		return "the breaker of a shard that answers is open"
	}
	return ""
}

func (m breaker) Idle(s breakerState) bool {
	return !s.open && !s.stalled && s.calls == [3]breakerCall{}
}

func (m breaker) Canonical(s breakerState) breakerState {
	sortByKey(s.calls[:], func(c breakerCall) uint64 {
		return packNumbers(bit(c.made), bit(c.sent), bit(c.background), bit(c.left), bit(c.noted), c.age)
	})
	return s
}
