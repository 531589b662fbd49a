package shared

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/store/internal/transport"
)

// A world is the true time, and the tasks that wait for theirs.
type world struct {
	*rand.Rand
	now    int64 // microseconds
	timers timers
	ready  []*task
	turn   *task // that runs
	next   *task // that is to run when the coroutine of this one has yielded
	seq    int
	end    int64 // of the run
	coroutines
	spare []*task // that have ended, and events that have happened
	hash  uint64  // of all events
	count int
	trace *strings.Builder // of the events, if it is wanted
	// broken is the first promise that was broken.
	broken string
}

// A machine is what tasks of one node share: while it stands still none of them runs, and
// after a crash none ever does.
type machine struct {
	parked  []parked // at a gate
	ending  []*task  // that go on when a context ends
	stands  bool
	pending []*task // whose time came while it stood still
	crashed bool
	closing bool // contexts end
}

type parked struct {
	gate transport.Gate
	t    *task
}

// A task is what a coroutine runs, or something that happens at an instant.
type task struct {
	on       *machine // nil: of the world
	f        func()
	event    bool       // f takes no time
	by       *coroutine // nil: it has not begun
	index    int        // in timers, or -1
	isAtGate bool
	wake     transport.Wake
	ctx      context.Context // that may end
}

func newWorld(seed uint64) *world {
	return &world{Rand: rand.New(rand.NewPCG(seed, 5)), now: 1_000, hash: 1469598103934665603}
}

// event notes what happened. Arguments are numbers, so that a hash is cheap, and no two
// events have a name of one length that begins alike.
func (w *world) event(what string, args ...int64) {
	w.count++
	h := (w.hash ^ uint64(w.now)) * 1099511628211
	h = (h ^ uint64(len(what))<<8 ^ uint64(what[0])) * 1099511628211
	for _, a := range args {
		h = (h ^ uint64(a)) * 1099511628211
	}
	w.hash = h
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%d %s %d\n", w.now, what, slices.Clone(args)) // so that the arguments need no memory else
	}
}

// fail notes a broken promise. The first one counts.
func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf("at %d: ", w.now) + fmt.Sprintf(format, args...)
	}
}

// run has all tasks go on until the true time is end, or a promise is broken.
func (w *world) run(end int64) {
	w.end = end
	for t := w.pick(); t != nil; t = w.next {
		w.switchTo(t)
	}
}

// pick returns which task goes on next, nil if the run is over.
func (w *world) pick() *task {
	for w.broken == "" {
		if len(w.ready) == 0 {
			if !w.pass() {
				return nil
			}
			continue
		}
		i := 0
		if len(w.ready) > 1 {
			i = w.IntN(len(w.ready))
		}
		t := w.ready[i]
		w.ready[i] = w.ready[len(w.ready)-1]
		w.ready = w.ready[:len(w.ready)-1]
		if w.mayRun(t) {
			return t
		}
	}
	return nil
}

// pass lets time pass until something happens, or a task can go on. It returns false if
// nothing does before the run is over.
func (w *world) pass() bool {
	if len(w.timers) == 0 || w.timers[0].at > w.end {
		w.now = w.end
		return false
	}
	w.now = max(w.now, w.timers[0].at)
	for len(w.timers) > 0 && w.timers[0].at <= w.now {
		t := w.timers[0].t
		if t.event {
			w.happen()
			continue
		}
		t.wake = transport.TimedOut
		w.wakeUp(t)
	}
	return true
}

// mayRun reports whether the machine of a task runs. While it stands still the task waits.
func (w *world) mayRun(t *task) bool {
	m := t.on
	switch {
	case m == nil:
		return true
	case m.crashed:
		return false
	case m.stands:
		m.pending = append(m.pending, t)
		return false
	}
	return true
}

// wakeUp has a task go on, when its machine does.
func (w *world) wakeUp(t *task) {
	if t.index >= 0 {
		w.timers.remove(t.index)
	}
	if t.isAtGate {
		m := t.on
		i := slices.IndexFunc(m.parked, func(p parked) bool { return p.t == t })
		m.parked, t.isAtGate = append(m.parked[:i], m.parked[i+1:]...), false
	}
	if t.ctx != nil {
		m := t.on
		i := slices.Index(m.ending, t)
		m.ending, t.ctx = append(m.ending[:i], m.ending[i+1:]...), nil
	}
	if w.mayRun(t) {
		w.ready = append(w.ready, t)
	}
}

// look wakes up the tasks of a machine whose gates were opened, or contexts ended.
func (w *world) look(m *machine) {
	for i := 0; m.closing && i < len(m.ending); {
		if t := m.ending[i]; t.ctx.Err() != nil {
			t.wake = transport.Ended
			w.wakeUp(t)
			continue
		}
		i++
	}
	for i := 0; i < len(m.parked); {
		if p := &m.parked[i]; isOpen(p.gate) {
			t := p.t
			t.wake = transport.Opened
			w.wakeUp(t)
			continue
		}
		i++
	}
}

// isOpen reports whether a gate lets pass whoever parks at it, who passes then.
func isOpen(g transport.Gate) bool {
	if len(g) == 0 && cap(g) > 0 {
		return false // only one without room is ever closed
	}
	select {
	case <-g:
		return true
	default:
		return false
	}
}

// start makes a task of f that begins at an instant.
func (w *world) start(m *machine, at int64, f func()) {
	t := w.newTask()
	t.on, t.f = m, f
	w.after(t, at)
}

// at has something happen at an instant.
func (w *world) at(at int64, f func()) {
	t := w.newTask()
	t.event, t.f = true, f
	w.after(t, max(at, w.now+1))
}

func (w *world) newTask() *task {
	if last := len(w.spare) - 1; last >= 0 {
		t := w.spare[last]
		w.spare = w.spare[:last]
		return t
	}
	return &task{index: -1}
}

// discard has a task that is over used again.
func (w *world) discard(t *task) {
	*t = task{index: -1}
	w.spare = append(w.spare, t)
}

// after has a task go on at an instant, or now.
func (w *world) after(t *task, at int64) {
	if w.seq++; at > w.now {
		w.timers.push(timer{at, w.seq, t})
		return
	}
	w.wakeUp(t)
}

// park is transport.Env's, in true time.
func (w *world) park(ctx context.Context, g transport.Gate, d time.Duration) transport.Wake {
	t := w.turn
	if isOpen(g) {
		return transport.Opened
	}
	t.checkAlive()
	at, ends := w.now+max(d.Microseconds(), 1), int64(math.MaxInt64)
	var cancels context.Context
	if ctx.Done() != nil {
		if a, ok := ctx.Value(askingKey{}).(*asking); ok {
			ends = a.ends
			at = min(at, max(ends, w.now+1))
		} else {
			cancels = ctx
		}
	}
	m := t.on
	if m != nil {
		w.look(m)
	}
	t.wake = transport.TimedOut
	if g != nil || m != nil && m.closing || !w.skipTo(at) {
		if t.ctx = cancels; cancels != nil {
			m.ending = append(m.ending, t)
		}
		if t.isAtGate = g != nil; t.isAtGate {
			m.parked = append(m.parked, parked{g, t})
		}
		if w.after(t, at); m != nil && m.closing {
			w.look(m)
		}
		w.yield(t)
	}
	if t.wake == transport.TimedOut && w.now >= ends {
		return transport.Ended
	}
	return t.wake
}

// skipTo lets time pass without handing over the turn, if nothing but events comes before
// an instant.
func (w *world) skipTo(at int64) bool {
	for len(w.ready) == 0 && at <= w.end && w.broken == "" {
		if len(w.timers) == 0 || w.timers[0].at > at {
			w.now = at
			return true
		}
		if !w.timers[0].t.event {
			return false
		}
		w.happen()
	}
	return false
}

// happen has the next event happen.
func (w *world) happen() {
	x := w.timers.remove(0)
	w.now = max(w.now, x.at)
	f := x.t.f
	w.discard(x.t)
	f()
}

// sleep lets microseconds pass.
func (w *world) sleep(us int64) {
	w.park(context.Background(), nil, time.Duration(us)*time.Microsecond)
}

// stand has a machine stand still, or go on.
func (w *world) stand(m *machine, still bool) {
	if m.stands = still; !still {
		some := m.pending
		m.pending = nil
		for _, t := range some {
			w.wakeUp(t)
		}
	}
}
