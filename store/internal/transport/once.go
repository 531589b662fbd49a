package transport

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
)

const (
	// leastWait and mostWait are the waits before a call is first made again, and later.
	leastWait, mostWait = 50 * time.Millisecond, 250 * time.Millisecond
	// maxRepeats is how many calls are made again at a time.
	maxRepeats = 1024
	// reuseFor is how long a series of the queue is used for new calls, in microseconds: the
	// last of them is made again for three times as long.
	reuseFor = 20_000_000
	// maxIdle is of how many parts series are kept that nobody uses.
	maxIdle = 1 << 14
)

// A numbered is a series of calls of one part, whatever they charge there.
type numbered struct {
	Series
	key  string // beside which its mark lies
	part int
}

// A Repeater has calls of a queue carried out once. It has series, of one call at a time each:
// so there are as many marks as calls at the same time, not as calls. Safe for concurrent use.
type Repeater struct {
	q    *Queue
	n    atomic.Int64 // calls that are made again
	mu   sync.Mutex
	idle map[int][]*numbered // by part; guarded by mu
}

// IsBusy reports whether a call is made again.
func (r *Repeater) IsBusy() bool { return r.n.Load() > 0 }

// PartOfKey returns with which keys a key can be in one call; that may change.
func (r *Repeater) PartOfKey(key string) int {
	if d := r.q.divider; d != nil {
		return d.Part(key)
	}
	return 0
}

// takeSeries takes a series for a call whose first key is key.
func (r *Repeater) takeSeries(key string) *numbered {
	part, now := r.PartOfKey(key), r.q.env.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for idle := r.idle[part]; len(idle) > 0; {
		n := idle[len(idle)-1]
		idle = idle[:len(idle)-1]
		// The part of its mark may be another by now.
		if r.idle[part] = idle; int64(now-n.begun) <= reuseFor && r.PartOfKey(n.key) == part {
			return n
		}
	}
	name := strconv.FormatUint(r.q.env.Rand(), 36) + strconv.FormatUint(r.q.env.Rand(), 36)
	return &numbered{Series{name: name, begun: now}, strings.Clone(key), part}
}

// keepSeries has a series be used for another call.
func (r *Repeater) keepSeries(n *numbered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle == nil || len(r.idle) >= maxIdle {
		r.idle = map[int][]*numbered{}
	}
	r.idle[n.part] = append(r.idle[n.part], n)
}

// CallOnce has ops, which are of one part, carried out once, for a caller who waits as those of
// Take do for the first answer. Before what they charge, and with it or not at all, the store
// counts the call by the mark of a series: where that is counted, they were carried out
// before. So a call without an answer is made again in the background, until it has one, the
// store may have forgotten the mark, or what it charges has come back by itself. Once reports
// then that it is made again, and when that is over it calls end with the ops: with when the
// last call was sent and nil, or with why its answer is not known.
//
// What undoes a call of a moment ago says so, and is made again also if it was not sent. A
// store without a mark, or that carries nothing out whole, is asked without a mark, and not again.
func (r *Repeater) CallOnce(ctx context.Context, class Class, ops []weir.Op, undo bool, end func(ops []weir.Op, sent clock.Node, err error)) (sent clock.Node, again bool, err error) {
	q := r.q
	if q.opt.Mark == nil || q.opt.Tuning.CountsOnly {
		sent, err = q.takePart(ctx, class, nil, ops, nil, undo)
		return sent, false, err
	}
	n := r.takeSeries(ops[0].Key)
	all := make([]weir.Op, 1, len(ops)+1)
	all[0] = n.MarkOp(n.key, q.opt.Mark, true, 0, nil)
	all = append(all, ops...)
	sent, err = q.takePart(ctx, class, nil, all, nil, undo)
	switch copyAnswers(ops, all[1:]); {
	case err == nil:
		n.EndCall()
		fallthrough
	case !MayRun(err) && (!undo || isAnswer(err)):
		r.keepSeries(n)
		return sent, false, err
	}
	for i := range all[1:] {
		all[i+1].Key = strings.Clone(all[i+1].Key)
	}
	if r.n.Add(1) <= maxRepeats && q.helpers.Go(func() { r.repeatCall(n, all, end) }) {
		return sent, true, err
	}
	r.n.Add(-1)
	return sent, false, err
}

// isAnswer reports whether a call would end with err each time.
func isAnswer(err error) bool {
	r, ok := errors.AsType[*Result](err)
	return ok && r.Outcome == Rejected || errors.Is(err, weir.ErrClosed)
}

// repeatCall makes a call again until it has an answer.
func (r *Repeater) repeatCall(n *numbered, all []weir.Op, end func(ops []weir.Op, sent clock.Node, err error)) {
	q := r.q
	ops, err, until, isCost := all[1:], error(errLate), n.begun.Add(KnownFor), true
	for i := range ops {
		l, isForced := ops[i].Limit, ops[i].Verb == weir.Force
		if isCost = isCost && isForced; isForced {
			until = min(until, q.env.Now().Add(micros.Of(l.Period)*min(max(l.Burst/l.Count, 1), 1000)))
		}
	}
	var sent clock.Node
	for wait := leastWait; err != nil && q.env.Now() < until && q.env.Park(q.ctx, nil, wait) != Ended; wait = min(2*wait, mostWait) {
		part := r.PartOfKey(ops[0].Key)
		if isCost && n.part < 0 && part >= 0 {
			// What the other server has perhaps charged does not count here, where the keys are
			// again: costs are charged, once. Units are not given back: they may be another's.
			n = r.takeSeries(ops[0].Key)
			all[0], until = n.MarkOp(n.key, q.opt.Mark, true, 0, nil), min(until, n.begun.Add(KnownFor))
		}
		// Another server, to which the keys have come for a while, has not the mark.
		if part != n.part || r.PartOfKey(n.key) != n.part || r.isEarly(ops) {
			continue
		}
		if at, failed := q.takePart(context.Background(), Background, nil, all, nil, false); failed == nil {
			sent, err = at, nil
		}
	}
	if err == nil {
		n.EndCall()
		r.keepSeries(n)
	}
	r.n.Add(-1)
	end(ops, sent, err)
}

// isEarly reports whether ops give back what has to be charged before.
func (r *Repeater) isEarly(ops []weir.Op) bool {
	for i := range ops {
		if o := &ops[i]; o.Verb == weir.Refund && r.q.opt.Owes != nil && r.q.opt.Owes(o) {
			return true
		}
	}
	return false
}
