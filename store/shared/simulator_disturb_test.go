package shared

import (
	"github.com/weirlimit/weir"
)

// disturb lets things happen that are no fault of a single call.
func (f *fleet) disturb() {
	for !f.isOver {
		if f.sleep(int64(f.ExpFloat64() * float64(f.often))); f.isOver {
			return
		}
		i := f.IntN(len(f.nodes))
		n := f.nodes[i]
		us := int64(f.ExpFloat64() * 1_500_000)
		what := f.IntN(9)
		switch {
		case f.isHealthy:
			what = 6 + f.IntN(3)
		case f.isStormy && f.IntN(4) > 0:
			what = 2 + f.IntN(2)
		}
		f.event("disturb", int64(what), int64(i), us)
		switch what {
		case 0: // the node stands still, and its clock too, or not
			f.stand(n.machine, true)
			// A shorter suspend is not noticed: leases live that much longer (docs/explanation/faults.md).
			isSuspended := f.IntN(2) == 0 && us >= 100_000
			f.sleep(us)
			if isSuspended {
				n.slept += us
			}
			// The wall clock is looked at once a millisecond: so much may be late.
			f.sleep(1010)
			n.excused = f.now + 3_000_000
			f.stand(n.machine, false)
		case 1:
			f.kill(n.machine)
			f.nodes[i] = f.boot(i)
		case 2:
			if n.cutOff, n.cutFrom = f.now+4*us, f.IntN(len(f.servers)+1)-1; f.layout == regions {
				n.cutOff = 0
				f.links[f.IntN(len(f.links))].disturb(us)
			}
		case 3:
			f.servers[f.IntN(len(f.servers))].disturb(us)
		case 4:
			if n.store != nil {
				n.evict()
			}
		case 5:
			if f.failsOver {
				set := f.Int64N(2) * (f.Int64N(10_000_001) - 5_000_000)
				s := f.servers[f.IntN(len(f.servers))]
				s.downUntil = f.now + us
				s.failOver(f.Int64N(100_000), set)
			}
		case 6: // replaced
			if n.store != nil && !n.closing {
				n.closing = true
				f.start(n.machine, 0, n.close)
				f.nodes[i] = f.boot(i)
			}
		default: // reloaded
			at := f.IntN(limits)
			l := f.limits[at]
			v := &weir.Limit{Name: l.Name, Algorithm: l.Algorithm, Count: f.counts[at] * (3 + f.Int64N(6)) / 4, Period: l.Period, Consistency: l.Consistency}
			if f.compile(v); v.ID() == l.ID() && f.shareIDOf(v) == f.shareIDOf(l) { // else it starts afresh
				f.limits[at] = v
				f.truths[at].change(f.mostOf(v))
			}
		}
	}
}

// setClocks sets wall clocks of nodes forward and back, by up to five seconds. One that is set
// back while its node is suspended hides for how long that was (docs/explanation/faults.md).
func (f *fleet) setClocks() {
	for !f.isOver {
		f.sleep(int64(f.ExpFloat64() * 5_000_000))
		n, us := f.nodes[f.IntN(len(f.nodes))], f.Int64N(10_000_001)-5_000_000
		if us < 0 && (n.stands || n.now < n.excused) {
			continue
		}
		f.event("set clock", n.index, us)
		n.wall += us
	}
}

// disturb has something happen to a server for a while.
func (s *server) disturb(us int64) {
	switch what := s.IntN(5); {
	case what == 0:
		s.stillUntil = max(s.stillUntil, s.now+us)
	case what == 1:
		s.slowUntil, s.slowBy = s.now+4*us, 2*budget+s.Int64N(budget)
	case what == 2 && s.failsOver && s.layout == ring: // killed, and what it kept is gone
		s.downUntil = s.now + us
		s.forget()
	default:
		s.downUntil = s.now + us
	}
}
