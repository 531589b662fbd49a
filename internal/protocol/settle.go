package protocol

// settle is a reservation of two keys that lie in two slots, which two callers settle at
// once with two costs. In each slot a mark with the cost that was settled lies beside the
// counter, and one script sets the mark and corrects the counter. The mark of the first
// slot decides the cost. Whoever hears it goes on with that cost, whosever it was, to the
// second slot, and asks each again until it answers.
type settle struct {
	// Breakages.
	unmarked bool // the second slot has no mark: a call that is repeated counts again
	undone   bool // a mark whose call had no answer is taken off, as one that may have run
	ownCost  bool // a caller goes on with its own cost
	stops    bool // a caller who hears another's mark, or its own of before, is done
}

type settleState struct {
	slots    [2]settleSlot
	settlers [2]settler
}

// A settleSlot has the cost in its mark, zero for none, and how often it was corrected, a ghost.
type settleSlot struct{ mark, corrected int8 }

// A settler is at a slot, or done with both. For each slot it has calls under way, and an
// answer that says whether the mark was there before.
type settler struct {
	at             int8
	waits          bool
	cost           int8 // that it asks for
	asked          [2]int8
	passed, before [2]bool
}

func (m settle) Start() settleState {
	return settleState{settlers: [2]settler{{cost: 1}, {cost: 2}}}
}

func (m settle) Steps(s settleState, add func(string, settleState)) {
	for i, a := range s.settlers {
		change := func(step string, by func(n *settleState, a *settler)) {
			n := s
			by(&n, &n.settlers[i])
			add(step, n)
		}
		if a.at < 2 && !a.waits && a.asked[a.at] < 2 {
			change("ask", func(_ *settleState, a *settler) {
				a.waits = true
				a.asked[a.at]++
			})
		}
		if a.waits {
			change("give up", func(n *settleState, a *settler) {
				a.waits = false
				if m.undone {
					n.slots[a.at].mark = 0
				}
			})
		}
		for p := range s.slots {
			if a.asked[p] > 0 {
				change("lose the call", func(_ *settleState, a *settler) { a.asked[p]-- })
				change("serve", func(n *settleState, a *settler) { m.serveSlot(&n.slots[p], a, p) })
			}
			if a.passed[p] || a.before[p] {
				change("lose the answer", func(_ *settleState, a *settler) { a.passed[p], a.before[p] = false, false })
				change("hear", func(n *settleState, a *settler) { m.hearAnswer(n, a, p) })
			}
		}
	}
}

// serveSlot is the script of a slot: the mark, and the correction that it lets through.
func (m settle) serveSlot(slot *settleSlot, a *settler, p int) {
	a.asked[p]--
	if slot.mark != 0 && !(m.unmarked && p == 1) {
		a.before[p] = true
		return
	}
	slot.mark, a.passed[p] = a.cost, true
	slot.corrected++
}

// hearAnswer is what a settler does with an answer. One that comes late says nothing.
func (m settle) hearAnswer(s *settleState, a *settler, p int) {
	isNew := a.passed[p]
	a.passed[p], a.before[p] = false, false
	if !a.waits || int(a.at) != p {
		return
	}
	a.waits = false
	if a.at++; m.stops && !isNew {
		a.at = 2
	}
	if !m.ownCost {
		a.cost = s.slots[p].mark
	}
}

func (m settle) Broken(s settleState) string {
	first, second := s.slots[0], s.slots[1]
	isDone := s.settlers[0].at == 2 || s.settlers[1].at == 2
	switch {
	case first.corrected > 1 || second.corrected > 1:
		return "a slot is charged twice"
	case first.mark != 0 && second.mark != 0 && first.mark != second.mark:
		return "two slots are settled with two costs"
	case isDone && (first.corrected == 0 || second.corrected == 0):
		return "a caller hears that it is settled, and a slot is not charged"
	}
	return ""
}

// Idle: both callers can always end.
func (m settle) Idle(s settleState) bool { return s.settlers[0].isDone() && s.settlers[1].isDone() }

func (a settler) isDone() bool {
	return a.at == 2 && a.asked == [2]int8{} && a.passed == [2]bool{} && a.before == [2]bool{}
}

// Canonical returns s: the settlers differ.
func (m settle) Canonical(s settleState) settleState { return s }
