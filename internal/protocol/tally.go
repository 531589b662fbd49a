package protocol

// tally is a window of an eventual limit: nodes admit by slack that the store lends, and
// push what they have admitted, each push under a number that a mark in the store counts.
// Requests may arrive late and again. Times are in ticks.
type tally struct {
	limit, overshoot, window int8
	share                    int8 // of the overshoot, that a node asks for
	// What may happen: nodes crash, the store fails over to a replica that lags behind.
	crash, failOver bool
	// Breakages.
	takenForCounted bool // B8: a push without an answer is taken for counted
	slackOutlives   bool // B9: slack outlives its window
	ownSlack        bool // B9: nodes divide the overshoot by their own count of nodes
	oldName         bool // B10: a restarted node pushes under its old name
	olderBelieved   bool // of answers that cross, the older may raise what remains
}

type tallyState struct {
	phase                int8
	count, slack         int8 // of the present window, on the store
	countKept, slackKept int8 // on its replica
	failed               bool // over, in this window
	admitted, lost       int8 // ghosts, of the present window
	nodes                [2]tallyNode
	messages             [2]tallyMessage
}

type tallyNode struct {
	tallied
	// ahead is by how much the number of the last push is above the mark, and aheadKept
	// above that of the replica.
	ahead, aheadKept int8
}

// tallied is what a node holds of a limit.
type tallied struct {
	known         bool
	remaining     int8
	tally, pushed int8
	slack, left   int8 // left is how long the slack lives
}

// mayAdmit reports whether a unit may be admitted without a word to the store.
func (t tallied) mayAdmit() bool {
	own := t.tally + t.pushed
	return t.known && own < min(t.slack, t.remaining)
}

// beginPush moves the tally into a push, unless one is under way.
func (t tallied) beginPush() (next tallied, fresh bool) {
	if t.pushed > 0 || t.tally == 0 {
		return t, false
	}
	t.tally, t.pushed = 0, t.tally
	return t, true
}

// hearAnswer takes over an answer of the store.
func (t tallied) hearAnswer(a answer) tallied {
	if a.crossed && t.known {
		t.remaining = min(t.remaining, a.remaining)
	} else {
		t.known, t.remaining = true, a.remaining
	}
	if a.slack > 0 && t.left == 0 {
		t.slack, t.left = a.slack, a.left
	}
	if a.counted {
		t.pushed = 0
	}
	return t
}

// abandon ends a push of which nobody knows whether it was counted: its units stay taken
// from the slack.
func (t tallied) abandon() tallied {
	t.slack = max(t.slack-t.pushed, 0)
	t.pushed = 0
	return t
}

// answer is what the store says: counted that the last push is, crossed that the call was
// sent before another was answered.
type answer struct {
	remaining, slack, left int8
	counted, crossed       bool
}

type tallyMessage struct {
	kind message
	node int8 // 2: of one that has crashed
	// behind is by how many pushes the number is behind the node's last.
	behind, units int8
	reply         answer // of a request: slack is what is asked for
}

const push = fetch

func (m tally) Start() tallyState { return tallyState{} }

func (m tally) Steps(s tallyState, add func(string, tallyState)) {
	m.passTime(s, add)
	for i := range s.nodes {
		m.stepNode(s, i, add)
	}
	for i := range s.messages {
		m.deliver(s, i, add)
	}
	if !m.failOver || s.failed {
		return
	}
	n := s
	n.countKept, n.slackKept = s.count, s.slack
	for i := range n.nodes {
		n.nodes[i].aheadKept = n.nodes[i].ahead
	}
	add("replicate", n)
	n = s
	n.failed, n.count, n.slack = true, s.countKept, s.slackKept
	n.lost += max(s.count-s.countKept, 0) + max(s.slack-s.slackKept, 0)
	for i := range n.nodes {
		n.nodes[i].ahead = n.nodes[i].aheadKept
	}
	add("fail over", n)
}

func (m tally) passTime(s tallyState, add func(string, tallyState)) {
	s.phase++
	if s.phase == m.window {
		s.phase, s.count, s.slack, s.countKept, s.slackKept, s.failed, s.admitted, s.lost = 0, 0, 0, 0, 0, false, 0, 0
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.left = max(n.left-1, 0); n.left == 0 && !m.slackOutlives {
			n.slack = 0
		}
	}
	for i := range s.messages {
		if t := &s.messages[i]; t.kind != 0 {
			t.reply.left = max(t.reply.left-1, -m.window)
		}
	}
	add("tick", s)
}

func (m tally) stepNode(s tallyState, i int, add func(string, tallyState)) {
	here := s.nodes[i].tallied
	if m.crash {
		add("crash", m.restart(s, i))
	}
	if here.mayAdmit() {
		n := s
		n.nodes[i].tally++
		n.admitted++
		add("spend", n)
	}
	if s.count < m.limit && here.left == 0 && here.slack == 0 {
		n := s
		n.count++
		n.admitted++
		n.nodes[i].tallied = here.hearAnswer(answer{remaining: m.limit - n.count})
		n.markCrossed(i)
		add("spend strictly", n)
	}
	if here.pushed > 0 {
		n := s
		if n.nodes[i].tallied = here.abandon(); m.takenForCounted {
			n.nodes[i].slack = here.slack
		}
		add("give up", n)
	}
	next, fresh := here.beginPush()
	for _, ask := range []int8{0, m.share} {
		if ask > 0 && here.left > 0 || ask == 0 && next.pushed == 0 {
			continue
		}
		n := s
		n.nodes[i].tallied = next
		if fresh {
			n.nodes[i].ahead++
			n.nodes[i].aheadKept++
			for j := range n.messages {
				if t := &n.messages[j]; t.kind != 0 && int(t.node) == i {
					t.behind++
				}
			}
		}
		t := tallyMessage{kind: push, node: int8(i), units: next.pushed, reply: answer{slack: ask}}
		if !n.hasMessage(t) && addIfRoom(n.messages[:], t) {
			add("push", n)
		}
	}
}

// markCrossed notes that a node has heard an answer: what is under way may be answered with less recent
// numbers.
func (s *tallyState) markCrossed(i int) {
	for j := range s.messages {
		if t := &s.messages[j]; t.kind != 0 && int(t.node) == i {
			t.reply.crossed = true
		}
	}
}

func (s *tallyState) hasMessage(t tallyMessage) bool {
	for _, u := range s.messages {
		if u == t {
			return true
		}
	}
	return false
}

// restart is a crash: what the node was lent is gone until the next window, and so is
// its name. Under the old one its pushes count as those of the new incarnation.
func (m tally) restart(s tallyState, i int) tallyState {
	ahead := s.nodes[i].ahead
	s.nodes[i] = tallyNode{}
	for j := range s.messages {
		t := &s.messages[j]
		switch {
		case t.kind == 0 || int(t.node) != i:
		case t.kind == grant:
			*t = tallyMessage{}
		case m.oldName:
			// It looks at its mark, and counts on from there.
			t.behind -= ahead
		case ahead > t.behind && t.units > 0:
			*t = tallyMessage{kind: push, node: crashed, units: t.units}
		default:
			*t = tallyMessage{}
		}
	}
	return s
}

func (m tally) deliver(s tallyState, i int, add func(string, tallyState)) {
	t := s.messages[i]
	if t.kind == 0 {
		return
	}
	n := s
	n.messages[i] = tallyMessage{}
	add("lose", n)
	if t.kind == grant {
		t.reply.counted = t.units > 0 && t.behind == 0
		if t.reply.left <= 0 {
			t.reply.slack = 0
		}
		if m.olderBelieved {
			t.reply.crossed = false
		}
		n.nodes[t.node].tallied = n.nodes[t.node].hearAnswer(t.reply)
		n.markCrossed(int(t.node))
		add("hear", n)
		return
	}
	if t.node == crashed {
		n.count += t.units
		add("serve", n)
		return
	}
	if p := &n.nodes[t.node]; t.units > 0 && p.ahead > t.behind {
		p.ahead--
		n.count += t.units
	}
	t.kind = grant
	t.reply.remaining = max(m.limit-n.count, 0)
	t.reply.left += m.window - s.phase
	switch ask := t.reply.slack; {
	case m.ownSlack && ask > 0:
		t.reply.slack = m.overshoot // a node that takes itself to be alone
	case s.slack+ask > m.overshoot:
		t.reply.slack = 0
	default:
		n.slack += ask
	}
	n.messages[i] = t
	add("serve", n)
	if n.messages[i] = s.messages[i]; addIfRoom(n.messages[:], t) {
		add("serve, to come again", n)
	}
}

func (m tally) Broken(s tallyState) string {
	if s.admitted > m.limit+m.overshoot+s.lost {
		return "more is admitted than the limit, what it may be overshot by and what the store has lost"
	}
	return ""
}

func (m tally) Idle(s tallyState) bool {
	for _, n := range s.nodes {
		if n.tally+n.pushed > 0 || n.slack > 0 {
			return false
		}
	}
	return s.messages == [2]tallyMessage{}
}

// farBehind: older pushes are taken for lost, a bound of the model.
const farBehind = 2

func (m tally) Canonical(s tallyState) tallyState {
	for i, t := range s.messages {
		switch {
		case t.kind == 0:
		case t.behind > farBehind:
			t = tallyMessage{}
		case t.units == 0:
			t.behind = 0
		}
		if t.kind == grant && t.reply.left <= 0 {
			t.reply.slack, t.reply.left = 0, 0
		}
		if t.reply.slack == 0 {
			t.reply.left = 0
		}
		s.messages[i] = t
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		n.ahead, n.aheadKept = min(n.ahead, farBehind+1), min(n.aheadKept, farBehind+1)
		if !m.failOver {
			n.aheadKept = 0
		}
	}
	key := func(n tallyNode) uint64 {
		return packNumbers(n.remaining|bit(n.known)<<6, n.tally, n.pushed, n.slack, n.left, n.ahead, n.aheadKept)
	}
	if key(s.nodes[1]) < key(s.nodes[0]) {
		s.nodes[0], s.nodes[1] = s.nodes[1], s.nodes[0]
		for i := range s.messages {
			if t := &s.messages[i]; t.kind != 0 && t.node != crashed {
				t.node = 1 - t.node
			}
		}
	}
	sortByKey(s.messages[:], func(t tallyMessage) uint64 {
		a := t.reply
		return packNumbers(int8(t.kind), t.node|bit(a.crossed)<<3|bit(a.counted)<<4, t.behind, t.units, a.remaining, a.slack, a.left)
	})
	return s
}
