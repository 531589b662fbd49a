package cooldown

import (
	"fmt"
	"testing"
	"time"
)

// TestPausesAreBounded: however many hosts ask to be left alone. Those that
// would be free first are.
func TestPausesAreBounded(t *testing.T) {
	var p Set
	now := time.Now()
	const hosts = maxPaused + 50
	for i := range hosts {
		p.Add(fmt.Sprint(i), now, time.Duration(i+1)*time.Second)
	}
	if len(p.until) != maxPaused || p.Left("0", now) != 0 || p.Left(fmt.Sprint(hosts-1), now) != hosts*time.Second {
		t.Errorf("%d are kept, the first for %s", len(p.until), p.Left("0", now))
	}
	p.Add("twice", now, 3*time.Hour)
	p.Add("twice", now, time.Second)
	if left := p.Left("twice", now); left != 3*time.Hour {
		t.Errorf("a later answer made the pause %s", left)
	}
	p.Add("late", now.Add(4*time.Hour), time.Second)
	if len(p.until) != 1 {
		t.Errorf("%d are kept when all but one are over", len(p.until))
	}
	if p.Left("late", now.Add(5*time.Hour)) != 0 || len(p.until) != 0 {
		t.Error("what is over is kept")
	}
}
