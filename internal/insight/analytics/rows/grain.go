package rows

import "time"

// Grain is how long a time the rows are of.
type Grain int64

// Grains, from the finest.
const (
	Minute Grain = 1
	Hour   Grain = 2
	Day    Grain = 3
)

// Grains are all of them.
var Grains = [...]Grain{Minute, Hour, Day}

// Seconds returns how long a time a row is of.
func (g Grain) Seconds() int64 { return [...]int64{0, 60, 3600, 86400}[g] }

// String returns the word for it in answers.
func (g Grain) String() string { return [...]string{"", "minute", "hour", "day"}[g] }

// FindStart returns the beginning of the row that an instant belongs to, in seconds since
// the Unix epoch. Days are those of UTC.
func (g Grain) FindStart(t time.Time) int64 { return FloorTo(t.Unix(), g.Seconds()) }

// FloorTo returns the greatest multiple of step that is not above at.
func FloorTo(at, step int64) int64 {
	r := at % step
	if r < 0 {
		r += step
	}
	return at - r
}

// CeilTo returns the least multiple of step that is not below at.
func CeilTo(at, step int64) int64 { return -FloorTo(-at, step) }
