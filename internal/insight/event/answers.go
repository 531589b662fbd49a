package event

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Answers says how requests that passed were answered.
type Answers struct {
	// Count is how many answers are known. Those of a request in flight
	// are in a later record of the same client and outcome.
	Count int64 `json:"count"`
	// OK had a status of 2xx or 101, Redirect another one below 400, Denied 401,
	// 403 or 404, ClientError another 4xx, among them weir.ClientGone, ServerError
	// 5xx or none: the upstream could not be reached, broke off or took too long.
	// Together they are Count.
	OK          int64 `json:"ok,omitempty"`
	Redirect    int64 `json:"redirect,omitempty"`
	Denied      int64 `json:"denied,omitempty"`
	ClientError int64 `json:"client_error,omitempty"`
	ServerError int64 `json:"server_error,omitempty"`
	// TotalMS is how long the requests took together, from when they were let
	// through to the end of the answer, LongestMS the longest of them. Rounded up.
	// Connections that were upgraded take no time here.
	TotalMS   int64 `json:"total_ms,omitempty"`
	LongestMS int64 `json:"longest_ms,omitempty"`
}

func (a *Answers) checkSums() error {
	left, bad := a.Count, false
	for _, n := range []int64{a.OK, a.Redirect, a.Denied, a.ClientError, a.ServerError} {
		bad = bad || n < 0 || n > left
		left -= n
	}
	switch {
	case bad || left != 0:
		return fmt.Errorf("answers: the classes do not add up to the count of %d", a.Count)
	case a.LongestMS < 0 || a.TotalMS < a.LongestMS:
		return errors.New("answers: the longest took more than all together")
	}
	return nil
}

// answers are those of a record, with their times in microseconds.
type answers struct {
	classes        [numClasses]int64
	total, longest int64
}

// countAnswer counts how a request ended.
func (r *record) countAnswer(s *sighting) {
	if r.count == 0 {
		r.last = max(r.last, s.now)
	}
	if r.answers == nil {
		r.answers = new(answers)
	}
	a := r.answers
	a.classes[classOf(int(s.status))]++
	if s.status != upgraded {
		a.total += s.delay
		a.longest = max(a.longest, s.delay)
	}
}

func (a *answers) buildAnswers() *Answers {
	out := &Answers{OK: a.classes[classOK], Redirect: a.classes[classRedirect], Denied: a.classes[classDenied],
		ClientError: a.classes[classClientError], ServerError: a.classes[classServerError], TotalMS: ceilToMillis(a.total), LongestMS: ceilToMillis(a.longest)}
	for _, n := range a.classes {
		out.Count += n
	}
	return out
}

// MaxArrivals is the most arrivals in a record.
const MaxArrivals = 256

// Arrival is one decision: when it was made, in microseconds after the record's
// First, and its cost in units. In JSON it is an array of the two.
type Arrival struct {
	AtUS int64
	Cost int64
}

// MarshalJSON implements json.Marshaler.
func (a Arrival) MarshalJSON() ([]byte, error) { return json.Marshal([2]int64{a.AtUS, a.Cost}) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Arrival) UnmarshalJSON(b []byte) error {
	var v []int64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if len(v) != 2 {
		return fmt.Errorf("event: an arrival of %d numbers: it has two", len(v))
	}
	a.AtUS, a.Cost = v[0], v[1]
	return nil
}

// maxArrivalUS is how far an arrival can be from the first: a record is of a
// minute at most, but clocks are set.
const maxArrivalUS = math.MaxInt64 / 2

func checkArrivals(arrivals []Arrival) error {
	if len(arrivals) > MaxArrivals {
		return fmt.Errorf("%d arrivals: a record has at most %d", len(arrivals), MaxArrivals)
	}
	last := int64(0)
	for _, a := range arrivals {
		if a.AtUS < last || a.AtUS > maxArrivalUS || a.Cost < 0 {
			return fmt.Errorf("arrival [%d,%d]: they are in order of time from 0 on, with a cost from 0 on", a.AtUS, a.Cost)
		}
		last = a.AtUS
	}
	return nil
}

// maxArrivals is the most arrivals of all records together.
const maxArrivals = 1 << 18

// arrival is a decision of a key of the sample.
type arrival struct{ at, cost int64 }

// recordArrival notes a single decision, if its key belongs to the sample.
func (m *merger) recordArrival(r *record, s *sighting) {
	if !r.sampled || r.merged || r.arrivalsCut {
		return
	}
	if len(r.arrivals) == MaxArrivals || m.arrivals == 0 {
		r.arrivalsCut = true
		return
	}
	m.arrivals--
	r.arrivals = append(r.arrivals, arrival{s.now, s.cost})
}

// reportArrivals returns arrivals in order of time. Decisions of several goroutines
// reach the ring nearly so.
func reportArrivals(arrivals []arrival, first int64) []Arrival {
	if len(arrivals) == 0 {
		return nil
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	out := make([]Arrival, len(arrivals))
	for i, a := range arrivals {
		out[i] = Arrival{AtUS: min(a.at-first, maxArrivalUS), Cost: a.cost}
	}
	return out
}

// check checks what a record tells.
func (r *Record) check() error {
	for _, n := range []int64{r.Count, r.Decisive, r.Cost, r.Early, r.DelayMS, r.RetryMS + 1, r.Every} {
		if n < 0 {
			return errors.New("a record with a negative count")
		}
	}
	if r.About != nil {
		if err := r.About.checkFacts(); err != nil {
			return err
		}
	}
	if r.Answers != nil {
		if err := r.Answers.checkSums(); err != nil {
			return err
		}
	}
	return checkArrivals(r.Arrivals)
}

func ceilToMillis(us int64) int64 { return (us + 999) / 1000 }
