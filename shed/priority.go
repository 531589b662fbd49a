package shed

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir/internal/spell"
)

// Priority is the class of a request: how late it is shed. It is the Priority
// of a [weir.Request], 0 the highest. What is out of range counts as the nearest
// class, as it does there.
//
// Decide it by what is asked for (the route), not by what a client says of
// itself: a header that anybody can send makes everybody critical.
type Priority int

// Classes, the last to be shed first.
const (
	// Critical: what the business stops without, such as taking a payment.
	Critical Priority = iota
	// Default: everything that nobody has thought about.
	Default
	// Sheddable: what a client repeats by itself, such as listings and polls.
	Sheddable
	// Background: what nobody waits for, such as batches, analytics, tests.
	Background

	classes = 4
)

var priorityNames = [classes]string{"critical", "default", "sheddable", "background"}

// Priorities returns the names of all classes, the last to be shed first.
func Priorities() []string { return priorityNames[:len(priorityNames):len(priorityNames)] }

// ParsePriority returns the class of a name, in lower case as Priorities has it.
func ParsePriority(name string) (Priority, error) {
	if i := slices.Index(priorityNames[:], name); i >= 0 {
		return Priority(i), nil
	}
	return Default, fmt.Errorf("unknown priority %q: %s", clipText(name), spell.Cure(name, priorityNames[:]))
}

// String returns the name of the class.
func (p Priority) String() string { return priorityNames[p.class()] }

// class returns p as an index.
func (p Priority) class() int { return min(max(int(p), 0), classes-1) }

// MarshalText implements encoding.TextMarshaler.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Priority) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePriority(string(text))
	return err
}

// clipText returns s as a message can bear it.
func clipText(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
