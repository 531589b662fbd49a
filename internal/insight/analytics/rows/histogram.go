package rows

import (
	"encoding/binary"
	"errors"

	"github.com/weirlimit/weir/internal/insight/event"
)

// histogram is how many durations there were of each bucket.
type histogram [event.LatencyBuckets]int64

func (h *histogram) addCounts(counts []event.LatencyCount) {
	for _, c := range counts {
		if c.Bucket >= 0 && c.Bucket < len(h) {
			h[c.Bucket] += BoundUint(c.Count)
		}
	}
}

func (h *histogram) joinHistogram(o *histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// SumCounts returns how many durations there were.
func (h *histogram) SumCounts() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// FindPercentile returns what so many in a hundred were below, in nanoseconds: at most an
// eighth too high, never too low. total is above zero.
func (h *histogram) FindPercentile(percent, total int64) float64 {
	left := (total*percent + 99) / 100
	for i, n := range h {
		if left -= n; left <= 0 {
			return float64(event.LatencyBound(i).Nanoseconds())
		}
	}
	return 0
}

// appendPacked returns numbers and the histogram behind them as varints: of each bucket that
// is not empty how far it is from the one before, and its number.
func (h *histogram) appendPacked(head []int64) (out []byte) {
	for _, n := range head {
		out = binary.AppendUvarint(out, uint64(n))
	}
	last := -1
	for i, n := range h {
		if n > 0 {
			out = binary.AppendUvarint(out, uint64(i-last))
			out = binary.AppendUvarint(out, uint64(n))
			last = i
		}
	}
	return out
}

// mergePacked takes in what appendPacked returned, and puts the numbers into head. No bytes
// are no numbers.
func (h *histogram) mergePacked(packed []byte, head []int64) error {
	if len(packed) == 0 {
		return nil
	}
	v := varints(packed)
	for i := range head {
		if head[i] = v.readNext(); head[i] < 0 {
			return errPacked
		}
	}
	for at := int64(-1); len(v) > 0; {
		gap, n := v.readNext(), v.readNext()
		if gap < 1 || n < 0 || gap >= int64(len(h))-at {
			return errPacked
		}
		at += gap
		h[at] += n
	}
	return nil
}

var errPacked = errors.New("durations cannot be read: the row was changed by others")

// varints are numbers in a row.
type varints []byte

// readNext returns the next number, -1 if there is none.
func (v *varints) readNext() int64 {
	n, size := binary.Uvarint(*v)
	if size <= 0 || n > 1<<62 {
		return -1
	}
	*v = (*v)[size:]
	return int64(n)
}
