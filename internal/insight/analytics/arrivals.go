package analytics

import (
	"encoding/binary"
	"errors"

	"github.com/weirlimit/weir/internal/insight/event"
)

// packArrivals returns arrivals as bytes: pairs of varints, the time since the one
// before in µs and the cost.
func packArrivals(arrivals []event.Arrival) []byte {
	out := make([]byte, 0, 4*len(arrivals))
	last := int64(0)
	for _, a := range arrivals {
		out = binary.AppendUvarint(out, uint64(max(a.AtUS-last, 0)))
		out = binary.AppendUvarint(out, uint64(figureOf(a.Cost)))
		last = max(last, a.AtUS)
	}
	return out
}

// unpackArrivals calls each with the time after the first, in µs, and the cost.
func unpackArrivals(data []byte, each func(at, cost int64)) error {
	at := int64(0)
	for len(data) > 0 {
		gap, n := binary.Uvarint(data)
		if n <= 0 {
			return errArrivals
		}
		cost, m := binary.Uvarint(data[n:])
		if m <= 0 {
			return errArrivals
		}
		at += int64(gap)
		each(at, int64(cost))
		data = data[n+m:]
	}
	return nil
}

var errArrivals = errors.New("arrivals cannot be read: the row was changed by others")
