package protocol

// steady is a small bucket that one node alone leases, and two spend strictly: they do so
// of the whole burst when no lot can be alive, and else leave what flows in during the
// life of one. Nodes register on the store. Times are in ticks, one unit flows in with each.
type steady struct {
	burst int8
	life  int8 // of a lot
	ttl   int8 // of a registration
	// exact: what is spent is to conform to the whole burst. It does not: units that flow
	// into a full bucket while a lot is alive are there twice until the bucket was full
	// again, also after the lot has ended.
	exact bool
	// Breakages.
	ownView   bool // a gap in the node's own view does not restart its wait
	lapsed    bool // a node whose registration has lapsed is steady still
	staleView bool // a node whose registration has lapsed still leases by what it last heard
}

type steadyState struct {
	// level is what the bucket has, as the store counts, and drawn what it would have if
	// units were counted when they are spent, a ghost.
	level, drawn int8
	nodes        [2]steadyNode
}

type steadyNode struct {
	registered int8 // for so long, on the store
	view       int8 // how many nodes it last heard of; 0: it never did
	since      int8 // how long it has been so
	renewed    int8 // how long ago
	lot        steadyLot
	flight     steadyLot
	served     bool
}

// A steadyLot is units and how long they may be drawn.
type steadyLot struct{ free, left int8 }

// settled is how long a view must last: all nodes have renewed, or are gone, and have
// drawn the last of their lots.
func (m steady) settled() int8 { return m.ttl + 1 + m.life }

// isSteady reports whether the whole burst may be spent.
func (m steady) isSteady(n steadyNode) bool {
	return n.since >= m.settled() && (n.renewed < m.ttl || m.lapsed)
}

// mayLease reports whether a node takes itself to be alone.
func (m steady) mayLease(n steadyNode) bool {
	return n.view == 1 && (n.renewed < m.ttl || m.staleView)
}

// renew is what a node hears when it renews its registration.
func (m steady) renew(n steadyNode, count int8) steadyNode {
	gap := n.renewed >= m.ttl && !m.ownView
	if n.view != count || gap {
		n.view, n.since = count, 0
	}
	n.registered, n.renewed = m.ttl, 0
	return n
}

func (m steady) Start() steadyState { return steadyState{level: m.burst, drawn: m.burst} }

func (m steady) Steps(s steadyState, add func(string, steadyState)) {
	n := s
	n.level, n.drawn = min(s.level+1, m.burst), min(s.drawn+1, m.burst)
	for i := range n.nodes {
		n.nodes[i] = m.tick(s.nodes[i])
	}
	add("tick", n)
	for i, here := range s.nodes {
		n := s
		n.nodes[i] = m.renew(here, 1+bit(s.nodes[1-i].registered > 0))
		if here.view == 0 {
			add("join", n)
			continue
		}
		add("renew", n)
		if here.registered == 0 {
			n := s
			n.nodes[i] = steadyNode{}
			add("crash", n)
		}
		m.lease(s, i, add)
		if here.view == 2 {
			need := 1 + m.life
			if m.isSteady(here) {
				need = 1
			}
			if n := s; s.level >= need {
				n.level--
				n.drawn--
				add("spend strictly", n)
			}
		}
	}
}

func (m steady) tick(n steadyNode) steadyNode {
	if n.view == 0 {
		return n
	}
	n.registered = max(n.registered-1, 0)
	n.since = min(n.since+1, m.settled())
	n.renewed = min(n.renewed+1, m.ttl)
	n.lot.left = max(n.lot.left-1, 0)
	n.flight.left = max(n.flight.left-1, 0)
	return n
}

// lease is what a node does with lots.
func (m steady) lease(s steadyState, i int, add func(string, steadyState)) {
	here := s.nodes[i]
	if m.mayLease(here) && here.flight.free == 0 {
		for units := int8(1); units <= m.burst-m.life; units++ {
			n := s
			n.nodes[i].flight = steadyLot{units, m.life + 1}
			add("fetch", n)
		}
	}
	if f := here.flight; f.free > 0 && !here.served && s.level-f.free >= m.life {
		n := s
		n.level -= f.free
		n.nodes[i].served = true
		add("serve", n)
	}
	if here.served && here.lot.free == 0 {
		n := s
		n.nodes[i].lot, n.nodes[i].flight, n.nodes[i].served = here.flight, steadyLot{}, false
		add("adopt", n)
	}
	if here.lot.free > 0 && here.lot.left > 0 {
		n := s
		n.nodes[i].lot.free--
		n.drawn--
		add("spend", n)
	}
}

func (m steady) Broken(s steadyState) string {
	if m.exact && s.drawn < 0 {
		return "more is spent than the burst and what has flowed in"
	}
	for _, n := range s.nodes {
		if n.view != 2 || !m.isSteady(n) {
			continue
		}
		for _, o := range s.nodes {
			if o.lot.left > 0 || o.flight.left > 0 {
				return "the whole burst is spent strictly while a lot is alive"
			}
		}
	}
	return ""
}

func (m steady) Idle(s steadyState) bool {
	for _, n := range s.nodes {
		if n.lot.free > 0 || n.flight.free > 0 {
			return false
		}
	}
	return true
}

func (m steady) Canonical(s steadyState) steadyState {
	if !m.exact {
		s.drawn = 0
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.lot.free == 0 || n.lot.left == 0 {
			n.lot = steadyLot{}
		}
		if n.flight.left == 0 {
			n.flight, n.served = steadyLot{}, false
		}
	}
	key := func(n steadyNode) uint64 {
		return pack(n.registered, n.view, n.since, n.renewed, n.lot.free, n.lot.left, n.flight.free, n.flight.left<<1|bit(n.served))
	}
	if key(s.nodes[1]) < key(s.nodes[0]) {
		s.nodes[0], s.nodes[1] = s.nodes[1], s.nodes[0]
	}
	return s
}
