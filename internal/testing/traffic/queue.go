package traffic

// turn is something that an actor does at an instant: it wakes, or it sends a
// request. It has no pointers, as the heap moves it often.
type turn struct {
	at, seq int64
	actor   int32
	// path is the place of the path in the actor's, from one on, 0 of a waking; number
	// is of those below it, from one on.
	path, number int32
	tries        int32
}

// queue is a heap of turns, the earliest first.
type queue []turn

func (q queue) Len() int { return len(q) }

func (q queue) before(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}

func (q *queue) push(t turn) {
	*q = append(*q, t)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *queue) pop() turn {
	h := *q
	top, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		least := i
		for _, c := range [...]int{2*i + 1, 2*i + 2} {
			if c < n && h.before(c, least) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return top
}
