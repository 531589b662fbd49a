package protocol

import (
	"strings"
	"testing"
)

// counter is a machine that counts up to two, and back to zero from the first.
type counter struct{ trap bool }

func (m counter) Start() int8           { return 0 }
func (m counter) Canonical(s int8) int8 { return s }
func (m counter) Idle(s int8) bool      { return s == 0 }

func (m counter) Broken(s int8) string {
	if s == 3 {
		return "three"
	}
	return ""
}

func (m counter) Steps(s int8, add func(string, int8)) {
	switch {
	case s == 1:
		add("down", 0)
		add("up", 2)
	case s == 0:
		add("up", 1)
	case !m.trap:
		add("down", 1)
	}
}

// stairs leads down to a state that breaks an invariant, by a short and a long way.
type stairs struct{ counter }

func (m stairs) Steps(s int8, add func(string, int8)) {
	add("one", s+1)
	if s == 0 {
		add("two", 2)
	}
}

func TestExplore(t *testing.T) {
	if r := Explore(counter{}, 10, true); r.States != 3 || !r.Whole || r.Broken != "" {
		t.Error(r)
	}
	r := Explore(counter{trap: true}, 10, true)
	if want := "3 states, depth 3, whole true: no idle state can be reached"; !strings.HasPrefix(r.String(), want) || len(r.Trace) != 3 || r.Trace[2].State != 2 {
		t.Error(r)
	}
	r = Explore(stairs{}, 10, false)
	if r.Broken != "three" || len(r.Trace) != 3 || r.Trace[1].Step != "two" || r.Trace[2].State != 3 {
		t.Error(r)
	}
	if r = Explore(counter{}, 2, false); r.Whole {
		t.Error("two of three states are not all", r)
	}
}
