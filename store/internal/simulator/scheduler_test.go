package simulator

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
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
	idle   []*task // that have ended: their stacks are used again
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
	tasks   map[*task]struct{}
	stands  bool
	pending []*task // whose time came while it stood still
	crashed bool
}

// A task is a coroutine.
type task struct {
	on    *machine // nil: of the world
	f     func()   // nil: it has ended
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	at    int64 // when it goes on at the latest
	seq   int   // tells tasks of one instant apart
	index int   // in timers, or -1
	gate  transport.Gate
	wake  transport.Wake
	ctx   *deadline
}

// crash unwinds a task of a machine that has crashed.
type crash struct{}

func newWorld(seed uint64) *world {
	return &world{Rand: rand.New(rand.NewPCG(seed, 5)), now: 1_000, hash: 1469598103934665603}
}

// event notes what happened. Arguments are numbers, so that a hash is cheap.
func (w *world) event(what string, args ...int64) {
	w.count++
	h := (w.hash ^ uint64(w.now)) * 1099511628211
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * 1099511628211
	}
	for _, a := range args {
		h = (h ^ uint64(a)) * 1099511628211
	}
	w.hash = h
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%d %s %d\n", w.now, what, args)
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
	for w.broken == "" {
		if len(w.ready) == 0 {
			if len(w.timers) == 0 || w.timers[0].at > end {
				w.now = end
				return
			}
			w.now = max(w.now, w.timers[0].at)
			for len(w.timers) > 0 && w.timers[0].at <= w.now {
				w.timers[0].wake = transport.TimedOut
				w.wakeUp(w.timers[0])
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
		heap.Remove(&w.timers, t.index)
	}
	if m := t.on; m != nil {
		if t.gate != nil {
			for i, p := range m.parked {
				if p == t {
					m.parked = append(m.parked[:i], m.parked[i+1:]...)
					break
				}
			}
			t.gate = nil
		}
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
		if m != nil {
			delete(m.tasks, t)
		}
	}
	if m == nil {
		return
	}
	for i := 0; i < len(m.parked); {
		p := m.parked[i]
		select {
		case <-p.gate:
			p.wake = transport.Opened
			w.wakeUp(p)
		default:
			i++
		}
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
	}
	t.on, t.f = m, f
	if m != nil {
		m.tasks[t] = struct{}{}
	}
	w.after(t, at)
}

// loop runs what the task is given, one after the other, until it is stopped.
func (t *task) loop(yield func(struct{}) bool) {
	defer func() {
		if r := recover(); r != nil && r != (crash{}) {
			panic(r)
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

// after has a task go on at an instant, or now.
func (w *world) after(t *task, at int64) {
	w.seq++
	if t.at, t.seq = at, w.seq; at > w.now {
		heap.Push(&w.timers, t)
		return
	}
	w.wakeUp(t)
}

// park is transport.Env's, in true time.
func (w *world) park(ctx context.Context, g transport.Gate, d time.Duration) transport.Wake {
	t := w.turn
	if g != nil {
		select {
		case <-g:
			return transport.Opened
		default:
		}
	}
	at := w.now + max(d.Microseconds(), 1)
	t.ctx, _ = ctx.Value(deadlineKey{}).(*deadline)
	if t.ctx != nil {
		at = min(at, max(t.ctx.ends, w.now+1))
	}
	t.gate, t.wake = g, transport.TimedOut
	if g != nil {
		t.on.parked = append(t.on.parked, t)
	}
	w.after(t, at)
	w.yieldTurn(t)
	if t.wake == transport.TimedOut && t.ctx != nil && w.now >= t.ctx.ends {
		return transport.Ended
	}
	return t.wake
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
	for t := range m.tasks { // in any order: nothing that they do has an effect
		if t.index >= 0 {
			heap.Remove(&w.timers, t.index)
		}
		t.stop()
	}
	m.tasks, m.parked, m.pending = map[*task]struct{}{}, nil, nil
}

// end stops all tasks of the world.
func (w *world) end() {
	for _, t := range append(w.idle, w.timers...) {
		t.stop()
	}
	w.idle, w.timers, w.ready = nil, nil, nil
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

// A deadline is the context of a caller that leaves at an instant.
type deadline struct {
	context.Context
	w    *world
	ends int64
}

type deadlineKey struct{}

var never = make(chan struct{})

func (d *deadline) Done() <-chan struct{} { return never }

func (d *deadline) Err() error {
	if d.w.now >= d.ends {
		return context.DeadlineExceeded
	}
	return nil
}

func (d *deadline) Value(key any) any {
	if key == (deadlineKey{}) {
		return d
	}
	return d.Context.Value(key)
}

// timers are the tasks that wait for an instant.
type timers []*task

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

func (t *timers) Push(x any) {
	x.(*task).index = len(*t)
	*t = append(*t, x.(*task))
}

func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	x.index, *t = -1, old[:len(old)-1]
	return x
}
