package memory

import "github.com/weirlimit/weir"

// takeAll decides ops in three moves, under the locks of all their segments. all
// and locks lend their memory.
func (s *Store) takeAll(ops []weir.Op, all []taken, locks lockSet) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	if err := s.locateOps(ops, all); err != nil {
		return err
	}
	locks = s.holdSegments(ops, all, locks)
	now := locks.decisionTime(s.clock)
	for i := range all {
		if p := &all[i]; len(p.versions) > 1 && s.carryRow(p, &ops[i], now) {
			// Rows stand elsewhere than where they were found.
			for j := range all {
				if q := &all[j]; q.table != nil && q.window == nil && q.overflow == nil {
					q.at, q.found = q.segment.findRow(q.tag)
				}
			}
		}
	}
	for i := range ops {
		all[i].answerPeek(&ops[i], now)
	}
	weir.Resolve(ops)
	moved := false
	for i := range ops {
		if !ops[i].Charged {
			continue
		}
		p := &all[i]
		found := p.found
		p.chargeOp(&ops[i], now, moved)
		// A row that was made may stand where that of a later op was.
		moved = moved || p.found != found
	}
	locks.unlock()
	return nil
}

// oneOfVersions steps a key that may have a row under another version of l.
func (s *Store) oneOfVersions(key string, l *weir.Limit, a weir.Ask) (weir.Op, error) {
	ops := [1]weir.Op{{Key: key, Limit: l, Cost: a.Cost, ID: a.ID, Verb: a.Verb}}
	var all [1]taken
	var locks [mostOps]*segment
	err := s.takeAll(ops[:], all[:], locks[:0])
	return ops[0], err
}
