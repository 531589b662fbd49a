package virtual

import (
	"container/heap"
	"context"
	"iter"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Time is the time of some nodes, in microseconds. All but Now is for the goroutine of Run
// and for tasks.
type Time struct {
	now    atomic.Int64
	timers timers
	ready  []*task
	turn   *task        // that runs
	idle   []*coroutine // whose task has ended
	seq    int64
	live   int // tasks that have not ended
}

// A task is a function that runs, or waits to.
type task struct {
	on   *Node // nil: of no node
	f    func()
	by   *coroutine // nil: it has not begun
	gate chan struct{}
	// opened: its gate let it pass.
	opened bool
	at     int64 // when it goes on by itself
	seq    int64 // tells tasks of one instant apart
	waits  int   // so far
	// index is its place among the timers, less than 0: none.
	index int
}

// A coroutine runs one task after the other. It stands still while its task waits.
type coroutine struct {
	runs    *task
	resume  func() (struct{}, bool)
	stop    func()
	suspend func(struct{}) bool
}

// New returns a time that begins at an instant.
func New(start int64) *Time {
	t := &Time{}
	t.now.Store(start)
	return t
}

// Now returns the time. Safe for concurrent use.
func (w *Time) Now() int64 { return w.now.Load() }

// Start has a task of f begin at an instant, or now if that has passed.
func (w *Time) Start(at int64, f func()) { w.start(nil, at, f) }

func (w *Time) start(on *Node, at int64, f func()) {
	w.live++
	w.schedule(&task{on: on, f: f, index: -1}, at)
}

// schedule has a task go on at an instant.
func (w *Time) schedule(t *task, at int64) {
	w.seq++
	if t.at, t.seq = at, w.seq; at > w.Now() {
		heap.Push(&w.timers, t)
		return
	}
	w.ready = append(w.ready, t)
}

// Sleep lets microseconds pass for the task that calls it.
func (w *Time) Sleep(us int64) { w.wait(w.Now() + us) }

// Waits returns how often the task that calls it has waited.
func (w *Time) Waits() int { return w.turn.waits }

// wait has the task that runs wait for an instant, or for what makes it ready before.
func (w *Time) wait(at int64) {
	t := w.turn
	t.waits++
	w.schedule(t, at)
	t.by.suspend(struct{}{})
	w.turn = t
}

// Run runs all tasks until none is left.
func (w *Time) Run() {
	for w.live > 0 {
		if len(w.ready) == 0 {
			w.now.Store(w.timers[0].at)
			for len(w.timers) > 0 && w.timers[0].at <= w.Now() {
				t := heap.Pop(&w.timers).(*task)
				t.leave(false)
				w.ready = append(w.ready, t)
			}
		}
		// What becomes ready meanwhile waits for its turn.
		some := w.ready
		w.ready = nil
		for _, t := range some {
			w.run(t)
		}
	}
	for _, c := range w.idle {
		c.stop()
	}
	w.idle = nil
}

// run has a task go on until it waits or ends.
func (w *Time) run(t *task) {
	c := t.by
	if c == nil {
		if last := len(w.idle) - 1; last >= 0 {
			c, w.idle = w.idle[last], w.idle[:last]
		} else {
			c = &coroutine{}
			c.resume, c.stop = iter.Pull(c.loop)
		}
		c.runs, t.by = t, c
	}
	w.turn = t
	c.resume()
	if c.runs == nil {
		w.live--
		w.idle = append(w.idle, c)
	}
	if t.on != nil {
		t.on.lookAtGates()
	}
}

// loop runs tasks until it is stopped.
func (c *coroutine) loop(suspend func(struct{}) bool) {
	for c.suspend = suspend; c.runs != nil; suspend(struct{}{}) {
		c.runs.f()
		c.runs = nil
	}
}

// A Node is what tasks that open each other's gates have in common.
type Node struct {
	*Time
	parked []*task // at a gate
}

// Node returns a new node.
func (w *Time) Node() *Node { return &Node{Time: w} }

// Start has a task of f begin on the node at an instant, or now if that has passed.
func (n *Node) Start(at int64, f func()) { n.start(n, at, f) }

// Go runs f as a task of the node.
func (n *Node) Go(f func()) { n.Start(n.Now(), f) }

// Park has the task that calls it wait until a gate of its node lets it pass, ctx has ended,
// or d has passed, and reports whether the gate did. Whether ctx has ended is looked at before
// it waits and after d.
func (n *Node) Park(ctx context.Context, gate chan struct{}, d time.Duration) bool {
	t := n.turn
	switch {
	case isOpen(gate):
		return true
	case ctx.Err() != nil:
		return false
	}
	if t.opened, t.gate = false, gate; gate != nil {
		n.parked = append(n.parked, t)
	}
	n.wait(n.Now() + max(min(d.Microseconds(), math.MaxInt64/4), 1))
	return t.opened
}

// isOpen reports whether a gate lets pass who parks at it, who passes then.
func isOpen(gate chan struct{}) bool {
	select {
	case <-gate:
		return true
	default:
		return false
	}
}

// lookAtGates has those go on whose gates were opened.
func (n *Node) lookAtGates() {
	for i := 0; i < len(n.parked); {
		t := n.parked[i]
		if !isOpen(t.gate) {
			i++
			continue
		}
		heap.Remove(&n.timers, t.index)
		t.leave(true)
		n.ready = append(n.ready, t)
	}
}

// leave ends the wait of a task.
func (t *task) leave(opened bool) {
	t.opened = opened
	if t.gate == nil {
		return
	}
	t.gate = nil
	i := slices.Index(t.on.parked, t)
	t.on.parked = slices.Delete(t.on.parked, i, i+1)
}

// timers are the tasks that wait for an instant: a heap.
type timers []*task

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *timers) Push(x any) {
	t := x.(*task)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h, t.index = (*h)[:last], -1
	return t
}
