package transport

import "slices"

// pushWaiting appends a call to what waits, and sees to it that a worker takes it, if one may.
func (s *shard) pushWaiting(c *Call) *Result {
	if s.breaker.isOpen.Load() {
		return errOpen
	}
	if s.working < s.q.opt.Workers && s.q.work.Go(s.worker) {
		s.working++
	}
	if s.working == 0 {
		return errClosed
	}
	list := listOfClass(c.class)
	s.waiting[list] = append(s.waiting[list], c)
	return nil
}

func (s *shard) refuseBusy() *Result {
	s.q.stats.busy.Add(1)
	return errBusy
}

// popWaiting takes out the call that came first, but for background calls of which enough are
// under way.
func (s *shard) popWaiting() *Call {
	for {
		list := 0
		if fore, back := s.waiting[0], s.waiting[1]; len(back) > 0 && s.background < s.q.opt.atMostBackground() &&
			(len(fore) == 0 || back[0].entered < fore[0].entered) {
			list = 1
		}
		all := s.waiting[list]
		if len(all) == 0 {
			return nil
		}
		c := all[0]
		all[0] = nil
		if s.waiting[list] = all[1:]; len(all) == 1 {
			s.waiting[list] = all[:0] // its room is used again
		}
		if !c.left {
			return c
		}
		s.release(c)
	}
}

// sweepLeft takes out of what waits the calls that were left, if they are many. Requires: mu.
func (s *shard) sweepLeft(list int) {
	all := s.waiting[list]
	if s.live*2+64 > len(all) {
		return
	}
	s.waiting[list] = nil
	for _, c := range all {
		if c.left {
			s.release(c)
		} else {
			s.waiting[list] = append(s.waiting[list], c)
		}
	}
}

func listOfClass(class Class) int {
	if class == Background {
		return 1
	}
	return 0
}

// release ends that later spends of a key wait behind c: the first of those that do goes
// to the queue in its place. Requires: mu.
func (s *shard) release(c *Call) {
	if c.tag == 0 || s.byKey[c.tag] != c {
		return
	}
	delete(s.byKey, c.tag)
	rest := slices.DeleteFunc(c.behind, func(c *Call) bool { return c.left })
	c.behind = nil
	if len(rest) == 0 {
		return
	}
	first := rest[0]
	first.behind = append(first.behind, rest[1:]...)
	s.byKey[c.tag] = first
	if r := s.pushWaiting(first); r != nil {
		s.dropCall(first, r)
	}
}

// dropCall answers a call that waits, and those behind it, without sending them. Requires:
// mu.
func (s *shard) dropCall(c *Call, r *Result) {
	if s.byKey[c.tag] == c {
		delete(s.byKey, c.tag)
	}
	all := append(c.behind, c)
	c.behind = nil // first: a call that has ended is its caller's
	for _, f := range all {
		if f.left || f.state != queued {
			continue
		}
		s.live--
		f.handBack(r, nil)
	}
}

// atMostBackground is how many background calls of a shard are under way at a time.
func (o *Options) atMostBackground() int { return max(o.Workers*o.Batch/4, 1) }
