package shared

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime/debug"
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
	seq    int
	end    int64   // of the run
	idle   []*task // that have ended: their stacks are used again
	tasks  []*task // all
	spare  []*task // events that have happened
	hash   uint64  // of all events
	count  int
	trace  *strings.Builder // of the events, if it is wanted
	// broken is the first promise that was broken.
	broken string
}

// A machine is what tasks of one node share: while it stands still none of them runs, and
// after a crash none ever does.
type machine struct {
	parked  []*task // at a gate
	ending  []*task // that go on when a context ends
	stands  bool
	pending []*task // whose time came while it stood still
	crashed bool
	closing bool // contexts end
}

// A task is a coroutine, or something that happens at an instant.
type task struct {
	on    *machine // nil: of the world
	f     func()   // nil: it has ended
	event bool     // f takes no time
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	at    int64 // when it goes on at the latest
	seq   int   // tells tasks of one instant apart
	index int   // in timers, or -1
	gate  transport.Gate
	wake  transport.Wake
	ctx   context.Context // that may end
}

// crash unwinds a task of a machine that has crashed.
type crash struct{}

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
	for w.broken == "" {
		if len(w.ready) == 0 {
			if len(w.timers) == 0 || w.timers[0].at > end {
				w.now = end
				return
			}
			w.now = max(w.now, w.timers[0].at)
			for len(w.timers) > 0 && w.timers[0].at <= w.now {
				t := w.timers[0]
				if t.wake = transport.TimedOut; t.event {
					w.happen()
					continue
				}
				w.wakeUp(t)
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
		w.resume(t)
	}
}

// wakeUp has a task go on, when its machine does.
func (w *world) wakeUp(t *task) {
	if t.index >= 0 {
		w.timers.remove(t.index)
	}
	if m := t.on; m != nil {
		if t.gate != nil {
			m.parked = without(m.parked, t)
		}
		if t.ctx != nil {
			m.ending = without(m.ending, t)
		}
		t.gate, t.ctx = nil, nil
		if m.crashed {
			return
		}
		if m.stands {
			m.pending = append(m.pending, t)
			return
		}
	}
	w.ready = append(w.ready, t)
}

func without(some []*task, t *task) []*task {
	i := slices.Index(some, t)
	return append(some[:i], some[i+1:]...)
}

// resume runs a task until it parks or ends, and wakes up those at gates that it opened.
func (w *world) resume(t *task) {
	m := t.on
	if m != nil {
		switch {
		case m.crashed:
			return
		case m.stands:
			m.pending = append(m.pending, t)
			return
		}
	}
	w.turn = t
	t.next()
	if t.f == nil {
		w.idle = append(w.idle, t)
	}
	if m == nil {
		return
	}
	w.pass(m)
}

// pass wakes up the tasks of a machine whose gates were opened, or contexts ended.
func (w *world) pass(m *machine) {
	for i := 0; m.closing && i < len(m.ending); {
		if p := m.ending[i]; p.ctx.Err() != nil {
			p.wake = transport.Ended
			w.wakeUp(p)
			continue
		}
		i++
	}
	for i := 0; i < len(m.parked); {
		if p := m.parked[i]; isOpen(p.gate) {
			p.wake = transport.Opened
			w.wakeUp(p)
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
	var t *task
	if last := len(w.idle) - 1; last >= 0 {
		t, w.idle = w.idle[last], w.idle[:last]
	} else {
		t = &task{index: -1}
		t.next, t.stop = iter.Pull(t.loop)
		w.tasks = append(w.tasks, t)
	}
	t.on, t.f = m, f
	w.after(t, at)
}

// loop runs what the task is given, one after the other, until it is stopped.
func (t *task) loop(yield func(struct{}) bool) {
	defer func() {
		if r := recover(); r != nil && r != (crash{}) {
			panic(fmt.Sprintf("%v\n%s", r, debug.Stack()))
		}
	}()
	t.yield = yield
	for {
		t.f()
		t.f = nil
		if !yield(struct{}{}) {
			return
		}
	}
}

// at has something happen at an instant.
func (w *world) at(at int64, f func()) {
	var t *task
	if last := len(w.spare) - 1; last >= 0 {
		t, w.spare = w.spare[last], w.spare[:last]
	} else {
		t = &task{event: true}
	}
	t.f = f
	w.after(t, max(at, w.now+1))
}

// after has a task go on at an instant, or now.
func (w *world) after(t *task, at int64) {
	w.seq++
	if t.at, t.seq = at, w.seq; at > w.now {
		w.timers.push(t)
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
	if g == nil && w.skipTo(t, at) {
		if w.now >= ends {
			return transport.Ended
		}
		return transport.TimedOut
	}
	if t.ctx = cancels; cancels != nil {
		t.on.ending = append(t.on.ending, t)
	}
	t.gate, t.wake = g, transport.TimedOut
	if g != nil {
		t.on.parked = append(t.on.parked, t)
	}
	w.after(t, at)
	w.yieldTurn(t)
	if t.wake == transport.TimedOut && w.now >= ends {
		return transport.Ended
	}
	return t.wake
}

// skipTo lets time pass without handing over the turn of t, if nothing but events comes
// before an instant.
func (w *world) skipTo(t *task, at int64) bool {
	m := t.on
	if m != nil {
		if w.pass(m); m.closing {
			return false
		}
	}
	for len(w.ready) == 0 && at <= w.end && w.broken == "" && (m == nil || !m.stands) {
		if len(w.timers) == 0 || w.timers[0].at > at {
			w.now = at
			return true
		}
		if !w.timers[0].event {
			return false
		}
		w.happen()
	}
	return false
}

// happen has the next event happen.
func (w *world) happen() {
	t := w.timers.remove(0)
	w.now = max(w.now, t.at)
	w.spare = append(w.spare, t)
	t.f()
}

func (w *world) yieldTurn(t *task) {
	if !t.yield(struct{}{}) {
		panic(crash{})
	}
}

// sleep lets microseconds pass.
func (w *world) sleep(us int64) {
	w.park(context.Background(), nil, time.Duration(us)*time.Microsecond)
}

// kill ends all tasks of a machine where they are.
func (w *world) kill(m *machine) {
	m.crashed = true
	w.tasks = slices.DeleteFunc(w.tasks, func(t *task) bool {
		if t.on != m || t.f == nil {
			return false
		}
		if t.index >= 0 {
			w.timers.remove(t.index)
		}
		t.stop()
		return true
	})
	m.parked, m.ending, m.pending = nil, nil, nil
}

// stopAll stops all tasks of the world.
func (w *world) stopAll() {
	for _, t := range w.tasks {
		t.stop()
	}
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

// timers are the tasks that wait for an instant: a heap.
type timers []*task

func (t *task) isBefore(o *task) bool { return t.at < o.at || t.at == o.at && t.seq < o.seq }

func (h *timers) push(t *task) {
	*h = append(*h, t)
	h.up(t, len(*h)-1)
}

// remove takes out the task at i.
func (h *timers) remove(i int) *task {
	all, n := *h, len(*h)-1
	t, last := all[i], all[n]
	all[n], *h, t.index = nil, all[:n], -1
	if i < n {
		h.down(last, i)
		h.up(last, last.index)
	}
	return t
}

func (h timers) up(t *task, i int) {
	for i > 0 && t.isBefore(h[(i-1)/2]) {
		h[i], h[(i-1)/2].index = h[(i-1)/2], i
		i = (i - 1) / 2
	}
	h[i], t.index = t, i
}

func (h timers) down(t *task, i int) {
	for {
		c := 2*i + 1
		if c+1 < len(h) && h[c+1].isBefore(h[c]) {
			c++
		}
		if c >= len(h) || !h[c].isBefore(t) {
			h[i], t.index = t, i
			return
		}
		h[i], h[c].index = h[c], i
		i = c
	}
}
