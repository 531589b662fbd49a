package rows

import "github.com/weirlimit/weir/internal/insight/event"

// Answering is how requests that passed were answered, all of them.
type Answering struct {
	// head has the classes of event.Answers, OK to ServerError, and how long the requests took
	// together and the longest of them, in microseconds.
	head  [7]int64
	Times histogram
}

// The numbers of an Answering behind its classes.
const (
	totalUS = iota + 5
	longestUS
)

// CountAnswers returns how many answers there were.
func (a *Answering) CountAnswers() (n int64) {
	for _, class := range a.head[:totalUS] {
		n += class
	}
	return n
}

// AddTotals takes in what a roll-up tells.
func (a *Answering) AddTotals(r *event.ResponseTotals) {
	var o Answering
	for i, n := range [...]uint64{r.OK, r.Redirect, r.Denied, r.ClientError, r.ServerError, r.TotalUS, r.LongestUS} {
		o.head[i] = BoundUint(n)
	}
	o.Times.addCounts(r.Times)
	a.JoinAnswers(&o)
}

// JoinAnswers takes in those of other rows.
func (a *Answering) JoinAnswers(o *Answering) {
	longest := max(a.head[longestUS], o.head[longestUS])
	for i, n := range o.head {
		a.head[i] += n
	}
	a.head[longestUS] = longest
	a.Times.joinHistogram(&o.Times)
}

// AsAnswers returns it as records tell it.
func (a *Answering) AsAnswers() event.Answers {
	return event.Answers{Count: a.CountAnswers(), OK: a.head[0], Redirect: a.head[1], Denied: a.head[2], ClientError: a.head[3],
		ServerError: a.head[4], TotalMS: DivideUp(a.head[totalUS], 1000), LongestMS: DivideUp(a.head[longestUS], 1000)}
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

// MarshalRow returns it as bytes.
func (a *Answering) MarshalRow() []byte { return a.Times.appendPacked(a.head[:]) }

// MergeRow takes in what MarshalRow returned.
func (a *Answering) MergeRow(packed []byte) error {
	var o Answering
	if err := o.Times.mergePacked(packed, o.head[:]); err != nil {
		return err
	}
	a.JoinAnswers(&o)
	return nil
}
