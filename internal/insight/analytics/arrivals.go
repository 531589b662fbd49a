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

// arrivals calls each with the single decisions of sampled keys in the range, and
// row with each record that they are of: its limit, client and whether some are
// missing from it.
func (r *reader) arrivals(each func(limit int64, client, outcome string, at, cost int64), row func(limit int64, client string, cut bool)) error {
	w := &where{}
	w.and("at >= ? AND at < ?", r.from*1e6, r.to*1e6)
	r.limitsOf(w, "limit_id")
	w.in("client", r.keys, false)
	return queryErr(r.tx, func(x Row) error {
		limit, client, outcome, first := x.Int(0), x.Text(1), x.Text(2), x.Int(3)
		if row != nil {
			row(limit, client, x.Int(4) != 0)
		}
		return unpackArrivals(x.Bytes(5), func(at, cost int64) { each(limit, client, outcome, first+at, cost) })
	}, `SELECT limit_id, client, outcome, at, cut, data FROM arrivals`+w.text+` ORDER BY at, id`, w.args...)
}
