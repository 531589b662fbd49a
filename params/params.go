// Package params holds the parameters of single algorithms: what only some limits need,
// beside the count, the period and the burst that all have. They are the field Params of a
// weir.Limit; the zero value is right for every algorithm.
package params

import "time"

// Anchor is where the windows of a fixed_window limit begin.
type Anchor uint8

const (
	// AnchorEpoch: windows are aligned to the Unix epoch plus [Params].Phase.
	AnchorEpoch Anchor = iota
	// AnchorFirst: a window begins with the first request after the last one
	// ended.
	AnchorFirst
	// AnchorCalendar: windows are days, weeks (from Monday), months or years
	// of [Params].Location; Period is the nominal length, [Params].Calendar the
	// unit.
	AnchorCalendar
)

// Calendar is the unit of calendar windows.
type Calendar uint8

// Units of a calendar window.
const (
	CalendarDay Calendar = iota
	CalendarWeek
	CalendarMonth
	CalendarYear
)

// Form is how a sliding_subwindows limit weighs its oldest sub-window.
type Form uint8

const (
	// Strict counts the oldest sub-window in full: never more than Count in
	// any window of Period.
	Strict Form = iota
	// Weighted counts the oldest sub-window in proportion to what the window
	// still covers of it.
	Weighted
	// Lenient leaves the oldest sub-window out.
	Lenient
)

// String returns the form's word in rules files.
func (f Form) String() string { return word(f, "strict", "weighted", "lenient") }

// Params holds the parameters of single algorithms. The zero value is right
// for all of them.
type Params struct {
	// Anchor is where windows begin (fixed_window). Zero means AnchorEpoch.
	Anchor Anchor
	// Phase shifts windows aligned to the epoch, 0 to Period.
	Phase time.Duration
	// Calendar is the unit of calendar windows. Zero means days.
	Calendar Calendar
	// Location is the time zone of calendar windows. Nil means UTC.
	Location *time.Location
	// Precision is the number of sub-windows (sliding_subwindows). Zero means 60.
	Precision int
	// Grain is for how many sub-windows, the current one included, the units of a
	// spend may be used later (sliding_window): they count from the end of the
	// last of them. Zero means that they are used at once, 4 is the most.
	Grain int
	// Form weighs the oldest sub-window (sliding_subwindows). Zero means Strict.
	Form Form
	// MaxDelay is the longest wait (leaky_queue). Zero means the time that
	// Burst units take to leave.
	MaxDelay time.Duration
	// Free is how many units pass without delay after a pause (leaky_queue).
	// Zero means none but the first.
	Free int64
	// MaxLog is the largest Count of a sliding_log limit. Zero means 10,000.
	MaxLog int64
	// Sketch sizes the approximate algorithm. The zero value takes 26 MiB, for
	// up to some five million units of a million keys in a period.
	Sketch SketchOptions
}

// SketchOptions sizes the sketch of an approximate limit. Either give the
// expected load and an error target, or the parameters themselves. The sizes are
// those of one sub-window, of which Generations and one more are kept.
type SketchOptions struct {
	// Expect is the number of units that all keys together spend in a period.
	// Zero means unknown: the sizes below are then used as they are.
	Expect int64
	// ErrorPermille is the over-count that is tolerated, in thousandths of
	// Count. Zero means 20.
	ErrorPermille int64
	// Width and Depth are the columns (a power of two) and rows of the
	// count-min sketch. Zero means by Expect and ErrorPermille, without Expect
	// 262,144 and 4.
	Width, Depth int
	// BloomBits and BloomHashes are the size of the Bloom filter and its number
	// of hash functions. Zero means for Expect keys, without Expect for a
	// million, of which one in a hundred is wrongly known.
	BloomBits   int64
	BloomHashes int
	// Generations is the number of sub-windows that the period is cut into.
	// Zero means 4.
	Generations int
}
