package shared

import (
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
)

// Coroutines run the tasks of a world. A task that begins runs on the coroutine of one that
// has ended, so that those which never park need no switch.
type coroutines struct {
	all     []*coroutine
	idle    []*coroutine
	stopped bool // all of them
}

// A coroutine runs one task after the other. While its task is parked others run elsewhere.
type coroutine struct {
	*world
	runs    *task // nil: it is idle
	resume  func() (struct{}, bool)
	suspend func(struct{}) bool
	stop    func()
}

// crash unwinds a task of a machine that has crashed.
type crash struct{}

// switchTo runs a task, and those that begin after it has ended, until one is next that
// goes on elsewhere.
func (w *world) switchTo(t *task) {
	c := t.by
	if c == nil {
		if last := len(w.idle) - 1; last >= 0 {
			c, w.idle = w.idle[last], w.idle[:last]
		} else {
			c = &coroutine{world: w}
			c.resume, c.stop = iter.Pull(c.loop)
			w.all = append(w.all, c)
		}
		c.runs, t.by = t, c
	}
	w.turn = t
	c.resume()
}

// loop runs tasks until it is stopped.
func (c *coroutine) loop(suspend func(struct{}) bool) {
	defer func() {
		if r := recover(); r != nil && r != (crash{}) {
			panic(fmt.Sprintf("%v\n%s", r, debug.Stack()))
		}
	}()
	for c.suspend = suspend; ; {
		c.runs.f()
		m := c.runs.on
		c.discard(c.runs)
		c.runs = nil
		if m != nil {
			c.look(m)
		}
		if t := c.pick(); t != nil && t.by == nil {
			c.runs, t.by, c.turn = t, c, t
		} else if c.next, c.idle = t, append(c.idle, c); !suspend(struct{}{}) {
			return
		}
	}
}

// yield has other tasks run until t is to go on.
func (w *world) yield(t *task) {
	w.next = w.pick()
	if w.next != t && !t.by.suspend(struct{}{}) {
		panic(crash{})
	}
	w.turn = t
}

// checkAlive ends a task that unwinds, if something on its way waits.
func (t *task) checkAlive() {
	if t.by.stopped || t.on != nil && t.on.crashed {
		panic(crash{})
	}
}

// kill ends all tasks of a machine where they are.
func (w *world) kill(m *machine) {
	m.crashed = true
	w.all = slices.DeleteFunc(w.all, func(c *coroutine) bool {
		t := c.runs
		if t == nil || t.on != m {
			return false
		}
		if t.index >= 0 {
			w.timers.remove(t.index)
		}
		c.stop()
		return true
	})
	m.parked, m.ending, m.pending = nil, nil, nil
}

// stopAll stops all tasks of the world.
func (w *world) stopAll() {
	w.stopped = true
	for _, c := range w.all {
		c.stop()
	}
}
