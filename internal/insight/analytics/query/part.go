package query

import "github.com/weirlimit/weir/internal/insight/analytics/rows"

// part is a part of a range by one grain.
type part struct {
	grain    rows.Grain
	from, to int64
}

// WholeRange returns the range as one part.
func (a *Ask) WholeRange() part { return part{a.Grain, a.From, a.To} }

// DivideRange divides a range into as few rows as there are: days where whole ones are
// in it, hours beside, minutes at the edges, none finer than the finest.
func DivideRange(from, to int64, finest, coarsest rows.Grain) []part {
	if from >= to {
		return nil
	}
	if coarsest <= finest {
		return []part{{finest, from, to}}
	}
	sec := coarsest.Seconds()
	first, end := rows.CeilTo(from, sec), rows.FloorTo(to, sec)
	if first >= end {
		return DivideRange(from, to, finest, coarsest-1)
	}
	out := DivideRange(from, first, finest, coarsest-1)
	out = append(out, part{coarsest, first, end})
	return append(out, DivideRange(end, to, finest, coarsest-1)...)
}
