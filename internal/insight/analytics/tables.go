package analytics

import (
	"time"
)

// Tables that answers are in CSV, where they are not a list of what JSON has.

// pointRow is a point of a line.
type pointRow struct {
	At   time.Time `json:"at"`
	Name string    `json:"name"`
	N    int64     `json:"n"`
}

func linesTable(at []time.Time, lines []Line) []pointRow {
	out := []pointRow{}
	for i := range at {
		for _, l := range lines {
			name := l.Name
			if l.Rest {
				name = "(rest)"
			}
			out = append(out, pointRow{at[i], name, l.Points[i]})
		}
	}
	return out
}

// overviewRow is an overview.
type overviewRow struct {
	Totals
	Requests *Requests `json:"requests"`
}

// upstreamRow is a step of an answer about the upstream.
type upstreamRow struct {
	At          time.Time `json:"at"`
	Admitted    int64     `json:"admitted"`
	Refused     int64     `json:"refused"`
	Answers     int64     `json:"responses"`
	OK          int64     `json:"ok"`
	Redirect    int64     `json:"redirect"`
	Denied      int64     `json:"denied"`
	ClientError int64     `json:"client_error"`
	ServerError int64     `json:"server_error"`
	MeanMS      int64     `json:"mean_ms"`
	LongestMS   int64     `json:"longest_ms"`
	P50MS       float64   `json:"p50_ms"`
	P99MS       float64   `json:"p99_ms"`
	AboveS      int64     `json:"above_safe_s"`
	SafeRate    float64   `json:"safe_rate"`
}

func upstreamTable(_ *ask, u *Upstream) any {
	out := []upstreamRow{}
	for i, at := range u.At {
		a := u.Answers[i]
		out = append(out, upstreamRow{at, u.Admitted[i], u.Refused[i], a.Count, a.OK, a.Redirect, a.Denied, a.ClientError, a.ServerError, u.MeanMS[i], a.LongestMS,
			u.P50MS[i], u.P99MS[i], u.AboveS[i], u.Safe.PerSecond})
	}
	return out
}

// ratesList returns the part of an answer about rates that is asked for.
func ratesList(a *ask, r *Rates) any {
	switch a.of {
	case "buckets":
		return r.Buckets
	case "peaks":
		return r.Peaks
	case "ladder":
		return r.Ladder
	}
	return r.Top
}

// historyTable returns the numbers that the limits had.
func historyTable(_ *ask, d *RuleDetail) any {
	out := []Version{}
	for _, l := range d.Limits {
		out = append(out, l.History...)
	}
	return out
}

// clientTable returns the client under each limit.
func clientTable(_ *ask, d *ClientDetail) any {
	out := []Client{}
	for _, l := range d.Limits {
		out = append(out, l.Client)
	}
	return out
}
