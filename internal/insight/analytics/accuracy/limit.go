package accuracy

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// Limit is what is known of a limit from its records.
type Limit struct {
	// Algorithm is the word for it in rules.
	Algorithm string
	// Allowance is how many units a Period has.
	Allowance int64
	Period    time.Duration
	// Burst is the most that passes at once. Zero means Allowance.
	Burst int64
}

func (l *Limit) checkBounds() error {
	if l.Allowance < 1 || l.Period < time.Millisecond || l.Period > weir.MaxPeriod {
		return fmt.Errorf("accuracy: a limit of %d in %s: give at least 1 unit, and a period of 1ms to %s", l.Allowance, l.Period, weir.MaxPeriod)
	}
	return nil
}

// Arrival is one decision on a key.
type Arrival struct {
	// At is when it was made, in microseconds since the Unix epoch.
	At   int64
	Cost int64
	// Admitted says that it passed.
	Admitted bool
	// Delay is how long it was told to wait, in microseconds.
	Delay int64
}
