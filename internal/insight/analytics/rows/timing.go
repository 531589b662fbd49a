package rows

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/insight/event"
)

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

// MarshalRow returns it as bytes: a varint of every, then the histogram.
func (t *Timing) MarshalRow() []byte {
	return t.Times.appendTo(binary.AppendUvarint(nil, uint64(t.Every)))
}

// MergeRow takes in what pack returned.
func (t *Timing) MergeRow(packed []byte) error {
	if len(packed) == 0 {
		return nil
	}
	v := varints(packed)
	every := v.readNext()
	if every < 0 {
		return errPacked
	}
	t.Every = max(t.Every, every)
	return t.Times.mergePacked(&v)
}
