package lateness

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

// A process that is on time is not late, and one whose look comes late is late by that,
// before it has looked and after.
func TestMeter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := New()
		defer m.Close()
		own := m.Allow(time.Hour)
		time.Sleep(time.Minute)
		if n := m.Total(); n != 0 || own.More() != 0 {
			t.Errorf("on time, and late by %s", n)
		}
		// The look before this instant was a while ago.
		m.due.Add(-int64(300 * time.Millisecond))
		if n := m.Since(0); n < 290*time.Millisecond || n > 300*time.Millisecond {
			t.Errorf("not looked at for 300 ms, and late by %s", n)
		}
		if n := own.More(); n < 290*time.Millisecond || own.More() != 0 || own.granted != n {
			t.Errorf("%s more, and then %s", n, own.granted)
		}
		time.Sleep(every)
		synctest.Wait()
		if n := m.Total(); n < 290*time.Millisecond || n > 310*time.Millisecond {
			t.Errorf("late by %s", n)
		}
		m.due.Add(-int64(time.Hour))
		if n := own.More(); n > most || own.granted != most || own.More() != 0 {
			t.Errorf("%s is waited for", own.granted)
		}
		var none *Meter
		if own := none.Allow(0); own.More() != 0 {
			t.Error("nobody measures, and somebody is late")
		}
	})
}

// One who is woken up too late waits for as long again: what has arrived meanwhile is still
// to be read. Woken up again in time it gives up, though every timer is late by a little.
func TestWokenLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := New()
		defer m.Close()
		own := m.Allow(20 * time.Millisecond)
		time.Sleep(27 * time.Millisecond)
		if n := own.More(); n != 7*time.Millisecond {
			t.Errorf("woken up 7 ms late, and %s more", n)
		}
		time.Sleep(8 * time.Millisecond)
		if n := own.More(); n != 0 {
			t.Errorf("woken up 1 ms late, and %s more", n)
		}
		own = m.Allow(0)
		time.Sleep(time.Hour)
		if n := own.More(); n != most {
			t.Errorf("woken up an hour late, and %s more", n)
		}
		own = m.Allow(time.Minute)
		if time.Sleep(time.Minute + usual); own.More() != 0 {
			t.Error("a timer that is well is late")
		}
	})
}

// A process that gets a turn every 40 ms is late for nearly all of the time, and looks at
// itself as seldom as before when it is well again.
func TestStarved(t *testing.T) {
	m := &Meter{base: time.Now().Add(-time.Hour)}
	m.look()
	before, begun := m.Total(), m.base
	for range 100 {
		m.base = m.base.Add(-40 * time.Millisecond)
		if next := m.look(); next != again {
			t.Fatalf("the next look is in %s", next)
		}
	}
	if late, passed := m.Total()-before, begun.Sub(m.base); late < passed*9/10 || late > passed+time.Second {
		t.Errorf("late for %s of %s", late, passed)
	}
	m.due.Add(int64(time.Hour))
	if next := m.look(); next != every {
		t.Errorf("the next look of one that is well is in %s", next)
	}
}

// While the process looks at itself, what it was late counts once: with the look, or
// since the one before.
func TestSpanCountsOnce(t *testing.T) {
	for range 2000 {
		m := &Meter{base: time.Now().Add(-time.Hour)} // not looked at for an hour
		var ready, done sync.WaitGroup
		var looked atomic.Bool
		ready.Add(1)
		for range 1 {
			done.Go(func() {
				ready.Done()
				for !looked.Load() {
					if n := m.Since(0); n < 59*time.Minute || n > 61*time.Minute {
						t.Errorf("an hour late, and %s since then", n)
						return
					}
				}
			})
		}
		ready.Wait()
		m.look()
		looked.Store(true)
		done.Wait()
	}
}
