package query

import (
	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// EachArrivals calls each with the single decisions of sampled keys in the range, those of
// a record together, and whether some are missing from it.
func (r *Reader) EachArrivals(each func(limit int64, client string, arrivals []accuracy.Arrival, cut bool)) {
	w := &Where{}
	w.AddCondition("at >= ? AND at < ?", r.From*1e6, r.To*1e6)
	r.AddLimits(w, "limit_id")
	w.addChoice("client", r.Keys, false)
	r.ReadRowsErr(func(row rows.Row) error {
		outcome, first := row.Text(2), row.Int(3)
		var arrivals []accuracy.Arrival
		err := rows.UnpackArrivals(row.Bytes(5), func(at, cost int64) {
			arrivals = append(arrivals, accuracy.Arrival{At: first + at, Cost: cost, Admitted: outcome != "refused" && outcome != "shadow_refused"})
		})
		each(row.Int(0), row.Text(1), arrivals, row.Int(4) != 0)
		return err
	}, `SELECT limit_id, client, outcome, at, cut, data FROM arrivals`+w.Text+` ORDER BY at, id`, w.Args...)
}
