package resp

import (
	"hash/maphash"
	"sync"

	"github.com/weirlimit/weir"
)

// An ask is a decision that was asked for, and then the answer. Its texts lie in
// the buffer that the connection reads into: it must be answered before more is
// read.
type ask struct {
	// Of CL.THROTTLE.
	key  string
	by   *numbered
	cost int64
	// Of WEIR.CHECK and its kin; nil else.
	req   *weir.Request
	lease bool // the reply names the lease

	decision weir.Decision
	err      error
}

// A batch is the questions of a client that are decided together.
type batch struct {
	s       *Server
	replies *writer
	pending []ask
	entries []weir.Entry // of the questions that are pending
}

// addQuestion adds a question to those that are decided together.
func (b *batch) addQuestion(a ask) {
	b.pending = append(b.pending, a)
	if len(b.pending) == maxPending {
		b.decidePending()
	}
}

// decidePending decides what was asked, in order, and appends the replies.
func (b *batch) decidePending() {
	asks := b.pending
	if len(asks) == 0 {
		return
	}
	b.s.decideAll(asks)
	for i := range asks {
		b.appendReply(&asks[i])
	}
	b.pending = asks[:0]
	b.entries = b.entries[:0]
}

// appendReply appends the reply to a decided question.
func (b *batch) appendReply(a *ask) {
	w := b.replies
	switch {
	case a.err != nil:
		w.out = appendError(w.out, b.s.undecided(a.err))
	case a.req != nil:
		w.out = appendDecision(w.out, w.proto, a)
	default:
		w.out = appendThrottle(w.out, a)
	}
	if a.req != nil {
		b.s.limiter.Recycle(a.req)
		a.req = nil
	}
	if len(w.out) >= flushAt {
		w.flush()
	}
}

// decideOne decides one question.
func (s *Server) decideOne(a *ask) {
	if a.req != nil {
		a.decision, a.err = s.limiter.Decide(s.ctx, a.req)
		return
	}
	a.decision, a.err = s.limiter.TakeLimit(s.ctx, a.key, a.by.limit, a.cost)
}

// decideAll decides questions, at the same time if the store is better asked so
// and not too much is under way.
func (s *Server) decideAll(asks []ask) {
	if workers := min(s.opt.Parallel, len(asks)); workers > 1 {
		defer s.workers.Add(-int64(workers))
		if s.workers.Add(int64(workers)) <= maxWorkers {
			s.decideParallel(asks, workers)
			return
		}
	}
	for i := range asks {
		s.decideOne(&asks[i])
	}
}

// decideParallel decides questions at the same time, but for those on one key,
// which keep their order.
func (s *Server) decideParallel(asks []ask, workers int) {
	var firsts [MaxParallel]int32 // one more than the first question of each lane
	var lasts [MaxParallel]int32
	var nexts [maxPending]int32
	for i := range asks {
		worker := s.hash(&asks[i]) % uint64(workers)
		if lasts[worker] == 0 {
			firsts[worker] = int32(i) + 1
		} else {
			nexts[lasts[worker]-1] = int32(i) + 1
		}
		lasts[worker] = int32(i) + 1
	}
	var all sync.WaitGroup
	for _, first := range firsts[:workers] {
		if first != 0 {
			all.Go(func() {
				for at := first; at != 0; at = nexts[at-1] {
					s.decideOne(&asks[at-1])
				}
			})
		}
	}
	all.Wait()
}

// hash is the same for questions on the same key.
func (s *Server) hash(a *ask) uint64 {
	if a.req == nil {
		return maphash.String(s.seed, a.key)
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	for i := range a.req.Descriptors {
		for _, e := range a.req.Descriptors[i].Entries {
			maphash.WriteComparable(&h, e)
		}
	}
	return h.Sum64()
}
