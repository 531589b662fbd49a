// Package lateness measures how late this process is on its own account: how long after
// their time its timers and goroutines run, where it is short of processor time or was
// stopped. What another has had no answer for so long is not the other's fault.
package lateness

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// every is how often the process is looked at, again how soon after a look that was late:
	// the time up to a look counts as time in which the process ran, and one that is short of
	// time hardly runs in it.
	every, again = 10 * time.Millisecond, time.Millisecond
	// usual is how late a timer is that is well.
	usual = 2 * time.Millisecond
)

// Meter adds up how late the process was. Safe for concurrent use. A nil meter is never
// late.
type Meter struct {
	base time.Time
	// due is when the process is to be looked at next, total how late it was in all at the
	// last look, both in nanoseconds.
	due, total atomic.Int64
	// looking is held while both change, or are read together: what was late since the
	// last look counts once.
	looking    sync.Mutex
	stop, done chan struct{}
}

// New returns a meter, which runs until it is closed.
func New() *Meter {
	m := &Meter{base: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	m.due.Store(int64(every))
	go m.run()
	return m
}

// Close ends the meter.
func (m *Meter) Close() {
	if m != nil {
		close(m.stop)
		<-m.done
	}
}

func (m *Meter) run() {
	defer close(m.done)
	t := time.NewTimer(every)
	defer t.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-t.C:
		}
		// As an answer does that is read by one goroutine and waited for by another.
		passed := make(chan struct{})
		go close(passed)
		<-passed
		t.Reset(m.look())
	}
}

// look notes how late the process was until now, and returns how soon to look again.
func (m *Meter) look() time.Duration {
	m.looking.Lock()
	defer m.looking.Unlock()
	now, next := int64(time.Since(m.base)), every
	if late := m.over(now); late > 0 {
		m.total.Add(late)
		next = again
	}
	m.due.Store(now + int64(next))
	return next
}

// over returns by how much a look at an instant comes too late.
func (m *Meter) over(now int64) int64 {
	if late := now - m.due.Load(); late > int64(usual) {
		return late
	}
	return 0
}

// Total returns how late the process was in all, at the last look.
func (m *Meter) Total() time.Duration {
	if m == nil {
		return 0
	}
	return time.Duration(m.total.Load())
}

// Since returns how late the process has been since Total was before, up to now.
func (m *Meter) Since(before time.Duration) time.Duration {
	if m == nil {
		return 0
	}
	m.looking.Lock()
	defer m.looking.Unlock()
	return m.Total() - before + time.Duration(m.over(int64(time.Since(m.base))))
}

// most is how much longer than its budget a call is waited for at most, as the process
// is late itself.
const most = time.Second

// An Allowance is how much longer another may take to answer, as this process was late
// meanwhile.
type Allowance struct {
	meter          *Meter
	before         time.Duration
	begun          time.Time
	waits, granted time.Duration
}

// Allow begins an allowance for one who waits so long. That of a nil meter is nothing.
func (m *Meter) Allow(waits time.Duration) Allowance {
	if m == nil {
		return Allowance{}
	}
	return Allowance{meter: m, before: m.Total(), begun: time.Now(), waits: waits}
}

// More returns how much longer is to be waited, when the time that was given is over:
// as long as the process was late in it, or woke up the caller too late: an answer that
// has arrived meanwhile is still to be read. It is zero if it was not, or if it was for so
// long that nobody can wait for it.
func (a *Allowance) More() time.Duration {
	if a.meter == nil {
		return 0
	}
	late := a.meter.Since(a.before)
	if woken := time.Since(a.begun) - a.waits - a.granted; woken-a.granted > usual {
		late = max(late, woken)
	}
	more := min(late, most) - a.granted
	if more <= 0 {
		return 0
	}
	a.granted += more
	return more
}
