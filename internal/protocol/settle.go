package protocol

// settle is a reservation that two callers settle at once, one with a smaller cost and
// one as if it had never been made. A mark lets one of them through. Units go back into
// the node's lot while it is held, after the mark has passed, else with the mark in one
// script of the store.
type settle struct {
	reserved int8
	// Breakages.
	refundFirst bool // B7: refunds run before the mark
	lateIsSet   bool // a mark without an answer is taken for set
}

type settleState struct {
	marked, held bool
	refunded     int8 // given back, a ghost
	settlers     [2]settler
}

// A settler asks the store to set the mark, again where no answer came. script says that
// the refund is in the same script.
type settler struct {
	asked, passed int8 // calls under way, and answers that the mark was set by them
	refused       bool // an answer that it was set before
	waits, done   bool
	script        bool
}

func (m settle) Start() settleState { return settleState{held: true} }

// units returns what a settler gives back.
func (m settle) units(i int) int8 { return m.reserved - int8(i) }

func (m settle) Steps(s settleState, add func(string, settleState)) {
	if s.held {
		n := s
		n.held = false
		add("lot surrendered", n)
	}
	for i, a := range s.settlers {
		change := func(step string, by func(n *settleState, a *settler)) {
			n := s
			by(&n, &n.settlers[i])
			add(step, n)
		}
		if !a.waits && !a.done && a.asked < 2 {
			change("mark", func(n *settleState, a *settler) {
				a.waits, a.script = true, !s.held
				a.asked++
				if m.refundFirst {
					n.refunded += m.units(i)
				}
			})
		}
		if a.asked > 0 {
			change("lose the call", func(n *settleState, a *settler) { a.asked-- })
			change("serve", func(n *settleState, a *settler) { m.serve(n, i) })
		}
		if a.passed > 0 {
			change("lose the answer", func(n *settleState, a *settler) { a.passed-- })
		}
		if a.waits {
			change("give up", func(n *settleState, a *settler) {
				a.waits = false
				if m.lateIsSet && !a.script {
					a.done = true
					n.refunded += m.units(i)
				}
			})
		}
		if a.waits && a.passed > 0 {
			change("set", func(n *settleState, a *settler) {
				a.waits, a.done = false, true
				a.passed--
				if !a.script && !m.refundFirst {
					n.refunded += m.units(i)
				}
			})
		}
		if a.refused {
			change("refused", func(n *settleState, a *settler) {
				a.done = a.done || a.waits
				a.waits = false
				a.refused = false
			})
		}
	}
}

// serve is the script: the mark, and what it lets through.
func (m settle) serve(s *settleState, i int) {
	a := &s.settlers[i]
	a.asked--
	if s.marked {
		a.refused = true
		return
	}
	s.marked = true
	a.passed++
	if a.script && !m.refundFirst {
		s.refunded += m.units(i)
	}
}

func (m settle) Broken(s settleState) string {
	if s.refunded > m.reserved {
		return "more is given back than was reserved"
	}
	return ""
}

func (m settle) Idle(s settleState) bool { return s.settlers[0].isIdle() && s.settlers[1].isIdle() }

func (a settler) isIdle() bool { return !a.waits && !a.refused && a.asked+a.passed == 0 }

// Canonical returns s: the settlers differ.
func (m settle) Canonical(s settleState) settleState { return s }
