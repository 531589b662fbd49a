package rows

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/insight/event"
)

// Answering is how requests that passed were answered, all of them.
type Answering struct {
	// ok to serverError are the classes of event.Answers.
	ok, redirect, denied, clientError, serverError int64
	totalUS, longestUS                             int64
	Times                                          histogram
}

// CountAnswers returns how many answers there were.
func (a *Answering) CountAnswers() int64 {
	return a.ok + a.redirect + a.denied + a.clientError + a.serverError
}

// AddTotals takes in what a roll-up tells.
func (a *Answering) AddTotals(r *event.ResponseTotals) {
	o := Answering{ok: BoundUint(r.OK), redirect: BoundUint(r.Redirect), denied: BoundUint(r.Denied), clientError: BoundUint(r.ClientError),
		serverError: BoundUint(r.ServerError), totalUS: BoundUint(r.TotalUS), longestUS: BoundUint(r.LongestUS)}
	o.Times.addCounts(r.Times)
	a.JoinAnswers(&o)
}

// JoinAnswers takes in those of other rows.
func (a *Answering) JoinAnswers(o *Answering) {
	a.ok, a.redirect, a.denied = a.ok+o.ok, a.redirect+o.redirect, a.denied+o.denied
	a.clientError, a.serverError = a.clientError+o.clientError, a.serverError+o.serverError
	a.totalUS, a.longestUS = a.totalUS+o.totalUS, max(a.longestUS, o.longestUS)
	a.Times.joinHistogram(&o.Times)
}

// AsAnswers returns it as records tell it.
func (a *Answering) AsAnswers() event.Answers {
	return event.Answers{Count: a.CountAnswers(), OK: a.ok, Redirect: a.redirect, Denied: a.denied, ClientError: a.clientError,
		ServerError: a.serverError, TotalMS: DivideUp(a.totalUS, 1000), LongestMS: DivideUp(a.longestUS, 1000)}
}

// FindPercentile returns what so many in a hundred answers took at most, -1 where none
// was timed.
func (a *Answering) FindPercentile(percent int64) float64 {
	n := a.Times.SumCounts()
	if n == 0 {
		return -1
	}
	return a.Times.FindPercentile(percent, n) / 1e6
}

// MarshalRow returns it as bytes: varints of the classes, of the total and the longest time,
// then the histogram.
func (a *Answering) MarshalRow() []byte {
	var out []byte
	for _, n := range [...]int64{a.ok, a.redirect, a.denied, a.clientError, a.serverError, a.totalUS, a.longestUS} {
		out = binary.AppendUvarint(out, uint64(n))
	}
	return a.Times.appendTo(out)
}

// MergeRow takes in what pack returned.
func (a *Answering) MergeRow(packed []byte) error {
	if len(packed) == 0 {
		return nil
	}
	v, o := varints(packed), Answering{}
	for _, to := range [...]*int64{&o.ok, &o.redirect, &o.denied, &o.clientError, &o.serverError, &o.totalUS, &o.longestUS} {
		if *to = v.readNext(); *to < 0 {
			return errPacked
		}
	}
	if err := o.Times.mergePacked(&v); err != nil {
		return err
	}
	a.JoinAnswers(&o)
	return nil
}
