package shed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/spell"
)

// Mode is what one limiter does.
type Mode uint8

const (
	// Enforce: it refuses.
	Enforce Mode = iota
	// Shadow: it counts what it would refuse, and refuses nothing.
	Shadow
	// Off: it is not asked, and counts nothing.
	Off
)

var modeNames = []string{"enforce", "shadow", "off"}

// parseMode returns the mode of a word: enforce, shadow or off.
func parseMode(word string) (Mode, error) {
	if i := slices.Index(modeNames, word); i >= 0 {
		return Mode(i), nil
	}
	return Off, fmt.Errorf("unknown mode %q: %s", clipText(word), spell.Cure(word, modeNames))
}

// String returns the word of the mode.
func (m Mode) String() string { return modeNames[min(m, Off)] }

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = parseMode(string(text))
	return err
}

// The four limiters, as indices.
const (
	userRate = iota
	userConcurrency
	fleetShare
	inFlight

	limiters = 4
)

var limiterNames = [limiters]string{"user_rate", "user_concurrency", "fleet_share", InFlightRule}

// InFlightRule is the word of the limiter that counts on the node alone, the others count
// in the store.
const InFlightRule = "in_flight"

// IsLimiter reports whether a limit of that name may be one of a [Shedder].
func IsLimiter(name string) bool {
	return slices.ContainsFunc(limiterNames[:], func(n string) bool { return name == n || strings.HasPrefix(name, n+"_") })
}
