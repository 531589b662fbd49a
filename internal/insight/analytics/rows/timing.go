package rows

import "github.com/weirlimit/weir/internal/insight/event"

// Timing is how many decisions took how long.
type Timing struct {
	Every int64
	Times histogram
}

// AddLatency takes in what a roll-up tells.
func (t *Timing) AddLatency(l *event.Latency) {
	t.Every = max(t.Every, BoundInt(l.Every))
	t.Times.addCounts(l.Counts)
}

// MarshalRow returns it as bytes.
func (t *Timing) MarshalRow() []byte { return t.Times.appendPacked([]int64{t.Every}) }

// MergeRow takes in what MarshalRow returned.
func (t *Timing) MergeRow(packed []byte) error {
	every := []int64{0}
	err := t.Times.mergePacked(packed, every)
	t.Every = max(t.Every, every[0])
	return err
}
