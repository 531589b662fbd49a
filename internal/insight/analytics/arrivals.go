package analytics

import (
	"encoding/binary"
	"errors"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
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
	at, v := int64(0), varints(data)
	for len(v) > 0 {
		gap, cost := v.next(), v.next()
		if gap < 0 || cost < 0 {
			return errArrivals
		}
		at += gap
		each(at, cost)
	}
	return nil
}

var errArrivals = errors.New("arrivals cannot be read: the row was changed by others")

// eachArrivals calls each with the single decisions of sampled keys in the range, those of
// a record together, and whether some are missing from it.
func (r *reader) eachArrivals(each func(limit int64, client string, arrivals []accuracy.Arrival, cut bool)) {
	w := &where{}
	w.and("at >= ? AND at < ?", r.from*1e6, r.to*1e6)
	r.limitsOf(w, "limit_id")
	w.in("client", r.keys, false)
	r.queryErr(func(row Row) error {
		outcome, first := row.Text(2), row.Int(3)
		var arrivals []accuracy.Arrival
		err := unpackArrivals(row.Bytes(5), func(at, cost int64) {
			arrivals = append(arrivals, accuracy.Arrival{At: first + at, Cost: cost, Admitted: outcome != "refused" && outcome != "shadow_refused"})
		})
		each(row.Int(0), row.Text(1), arrivals, row.Int(4) != 0)
		return err
	}, `SELECT limit_id, client, outcome, at, cut, data FROM arrivals`+w.text+` ORDER BY at, id`, w.args...)
}
