package shared

// Timers are the tasks that wait for an instant: a heap.
type timers []timer

// A timer has the keys of the heap beside its task, as they are compared more often than
// it is looked at.
type timer struct {
	at  int64
	seq int // tells tasks of one instant apart
	t   *task
}

func (x *timer) isBefore(o *timer) bool { return x.at < o.at || x.at == o.at && x.seq < o.seq }

func (h *timers) push(x timer) {
	*h = append(*h, x)
	h.up(x, len(*h)-1)
}

// remove takes out the timer at i.
func (h *timers) remove(i int) timer {
	all, n := *h, len(*h)-1
	x, last := all[i], all[n]
	all[n], *h, x.t.index = timer{}, all[:n], -1
	if i < n {
		h.down(last, i)
		h.up(last, last.t.index)
	}
	return x
}

func (h timers) up(x timer, i int) {
	for i > 0 && x.isBefore(&h[(i-1)/2]) {
		h.set(i, h[(i-1)/2])
		i = (i - 1) / 2
	}
	h.set(i, x)
}

func (h timers) down(x timer, i int) {
	for {
		c := 2*i + 1
		if c+1 < len(h) && h[c+1].isBefore(&h[c]) {
			c++
		}
		if c >= len(h) || !h[c].isBefore(&x) {
			h.set(i, x)
			return
		}
		h.set(i, h[c])
		i = c
	}
}

func (h timers) set(i int, x timer) { h[i], x.t.index = x, i }
