package virtual

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Tasks go on in the order of their instants, those of one instant in the order in which
// they began to wait; and time passes while all wait only.
func TestTasksGoOnInOrder(t *testing.T) {
	w := New(1000)
	var got []string
	note := func(what string) { got = append(got, fmt.Sprintf("%d %s", w.Now(), what)) }
	w.Start(1030, func() { note("c") })
	w.Start(1010, func() {
		note("a")
		w.Sleep(20)
		note("d")
	})
	w.Start(500, func() { note("first") })
	w.Start(1010, func() {
		note("b")
		w.Start(w.Now(), func() { note("of b") })
		w.Sleep(0)
		note("b again")
	})
	w.Run()
	want := []string{"1000 first", "1010 a", "1010 b", "1010 of b", "1010 b again", "1030 c", "1030 d"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Whoever parks goes on when the gate is opened, when the context has ended, or when the time
// has passed, and knows whether it was the gate.
func TestParkSaysWhy(t *testing.T) {
	w := New(0)
	n := w.Node()
	opened, closed, shut := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	got := map[string]string{}
	park := func(name string, ctx context.Context, gate chan struct{}, d time.Duration) {
		n.Go(func() {
			before := w.Waits()
			isOpened := n.Park(ctx, gate, d)
			got[name] = fmt.Sprint(w.Now(), isOpened, w.Waits()-before)
		})
	}
	park("opened", t.Context(), opened, time.Second)
	park("closed", t.Context(), closed, time.Second)
	park("closed too", t.Context(), closed, time.Second)
	park("passed", t.Context(), shut, 30*time.Microsecond)
	park("no gate", t.Context(), nil, 40*time.Microsecond)
	park("ended", ctx, shut, 50*time.Microsecond)
	n.Start(10, func() { opened <- struct{}{} })
	n.Start(20, func() { close(closed) })
	n.Start(25, cancel)
	n.Start(60, func() {
		shut <- struct{}{}
		got["open"] = fmt.Sprint(n.Park(ctx, shut, time.Second))
		got["over"] = fmt.Sprint(n.Park(ctx, shut, time.Second), w.Now())
	})
	w.Run()
	for name, want := range map[string]string{
		"opened": "10 true 1", "closed": "20 true 1", "closed too": "20 true 1", "passed": "30 false 1", "no gate": "40 false 1", "ended": "50 false 1",
		"open": "true", "over": "false 60",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
}

// Many tasks end, and leave nothing behind that runs.
func TestTasksAreUsedAgain(t *testing.T) {
	w, sum := New(0), 0
	for i := range 1000 {
		w.Start(int64(i), func() {
			for range 100 {
				w.Sleep(7)
			}
			sum++
		})
	}
	w.Run()
	if sum != 1000 || w.live != 0 || w.idle != nil || w.Now() != 999+700 {
		t.Errorf("%d tasks ended at %d, %d are left", sum, w.Now(), w.live)
	}
}
