package weir

import (
	"testing"
	"time"
)

// counterOnly is the least algorithm that compiles.
type counterOnly struct{}

func (counterOnly) Name() string           { return "counter" }
func (counterOnly) Traits() Traits         { return 0 }
func (counterOnly) Prepare(l *Limit) error { l.Cells = 1; return nil }
func (counterOnly) Step(_ []int64, l *Limit, _ Ask) Decision {
	return Decision{Limit: l}
}

// The short way of Take is half the time of a decision, and nothing but time
// tells that it is taken.
func TestOnlyPlainLimitsTakeTheShortWay(t *testing.T) {
	f := func(short bool, change func(*Limit)) {
		t.Helper()
		limit := PerSecond(10, counterOnly{})
		change(limit)
		l, err := New(struct{ Store }{}, Limits{limit}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.only != nil; got != short {
			t.Errorf("short way taken: %v, want %v", got, short)
		}
	}
	f(true, func(*Limit) {})
	f(true, func(l *Limit) { l.Rollout = 100 })
	f(false, func(l *Limit) { l.Rollout = 10 })
	f(false, func(l *Limit) { l.Shadow = true })
	f(false, func(l *Limit) { l.Excess = 10 })
	f(false, func(l *Limit) { l.Penalize = true })
	f(false, func(l *Limit) { l.Headroom = []int64{0, 5} })
	f(false, func(l *Limit) { l.Pool = PerSecond(5, counterOnly{}) })
	f(false, func(l *Limit) { l.Ban = &Limit{Algorithm: counterOnly{}, Count: 1, Period: time.Second} })
}
