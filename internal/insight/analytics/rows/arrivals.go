package rows

import (
	"encoding/binary"
	"errors"

	"github.com/weirlimit/weir/internal/insight/event"
)

// PackArrivals returns arrivals as bytes: pairs of varints, the time since the one
// before in µs and the cost.
func PackArrivals(arrivals []event.Arrival) []byte {
	out := make([]byte, 0, 4*len(arrivals))
	last := int64(0)
	for _, a := range arrivals {
		out = binary.AppendUvarint(out, uint64(max(a.AtUS-last, 0)))
		out = binary.AppendUvarint(out, uint64(BoundInt(a.Cost)))
		last = max(last, a.AtUS)
	}
	return out
}

// UnpackArrivals calls each with the time after the first, in µs, and the cost.
func UnpackArrivals(data []byte, each func(at, cost int64)) error {
	at, v := int64(0), varints(data)
	for len(v) > 0 {
		gap, cost := v.readNext(), v.readNext()
		if gap < 0 || cost < 0 {
			return errArrivals
		}
		at += gap
		each(at, cost)
	}
	return nil
}

var errArrivals = errors.New("arrivals cannot be read: the row was changed by others")
