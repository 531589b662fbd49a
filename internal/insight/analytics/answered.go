package analytics

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/insight/event"
)

// answering is how requests that passed were answered, all of them.
type answering struct {
	// ok to serverError are the classes of event.Answers.
	ok, redirect, denied, clientError, serverError int64
	totalUS, longestUS                             int64
	times                                          histogram
}

func (a *answering) count() int64 {
	return a.ok + a.redirect + a.denied + a.clientError + a.serverError
}

// add takes in what a roll-up tells.
func (a *answering) add(r *event.ResponseTotals) {
	o := answering{ok: figure(r.OK), redirect: figure(r.Redirect), denied: figure(r.Denied), clientError: figure(r.ClientError),
		serverError: figure(r.ServerError), totalUS: figure(r.TotalUS), longestUS: figure(r.LongestUS)}
	o.times.add(r.Times)
	a.join(&o)
}

func (a *answering) join(o *answering) {
	a.ok, a.redirect, a.denied = a.ok+o.ok, a.redirect+o.redirect, a.denied+o.denied
	a.clientError, a.serverError = a.clientError+o.clientError, a.serverError+o.serverError
	a.totalUS, a.longestUS = a.totalUS+o.totalUS, max(a.longestUS, o.longestUS)
	a.times.join(&o.times)
}

// answers returns it as records tell it.
func (a *answering) answers() event.Answers {
	return event.Answers{Count: a.count(), OK: a.ok, Redirect: a.redirect, Denied: a.denied, ClientError: a.clientError,
		ServerError: a.serverError, TotalMS: ceilDiv(a.totalUS, 1000), LongestMS: ceilDiv(a.longestUS, 1000)}
}

// percentileMS returns what so many in a hundred answers took at most, -1 where none
// was timed.
func (a *answering) percentileMS(percent int64) float64 {
	n := a.times.total()
	if n == 0 {
		return -1
	}
	return a.times.percentile(percent, n) / 1e6
}

// pack returns it as bytes: varints of the classes, of the total and the longest time,
// then the histogram.
func (a *answering) pack() []byte {
	var out []byte
	for _, n := range [...]int64{a.ok, a.redirect, a.denied, a.clientError, a.serverError, a.totalUS, a.longestUS} {
		out = binary.AppendUvarint(out, uint64(n))
	}
	return a.times.appendTo(out)
}

// merge takes in what pack returned.
func (a *answering) merge(packed []byte) error {
	if len(packed) == 0 {
		return nil
	}
	v, o := varints(packed), answering{}
	for _, to := range [...]*int64{&o.ok, &o.redirect, &o.denied, &o.clientError, &o.serverError, &o.totalUS, &o.longestUS} {
		if *to = v.next(); *to < 0 {
			return errPacked
		}
	}
	if err := o.times.merge(&v); err != nil {
		return err
	}
	a.join(&o)
	return nil
}

// readResponses are the limits that met requests of which it is known how they were
// answered.
func readResponses(r *reader) map[name]bool {
	out := map[name]bool{}
	w := r.whereOf(part{r.grain, r.from, r.to})
	r.query(func(row Row) { out[nameOf(r.byID[row.Int(0)])] = true }, `SELECT DISTINCT limit_id FROM answered`+w.text, w.args...)
	if len(out) > 0 {
		return out
	}
	r.clientRows(r.clientGrain(), r.from, r.to, clientColumns{merged: true, condition: "answers > 0"}, func(l *clientLine) { out[nameOf(r.byID[l.limit])] = true })
	return out
}
