package event

import (
	"fmt"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// ResponseTotals tells how all requests that passed under a limit were answered whose
// answers the front end saw, whoever sent them. Two of them become one by adding the
// counts, the longest apart.
type ResponseTotals struct {
	// OK, Redirect, Denied, ClientError and ServerError are the classes of Answers.
	OK          uint64 `json:"ok,omitempty"`
	Redirect    uint64 `json:"redirect,omitempty"`
	Denied      uint64 `json:"denied,omitempty"`
	ClientError uint64 `json:"client_error,omitempty"`
	ServerError uint64 `json:"server_error,omitempty"`
	// TotalUS is how long the requests took together, in microseconds, LongestUS the
	// longest of them.
	TotalUS   uint64 `json:"total_us,omitempty"`
	LongestUS uint64 `json:"longest_us,omitempty"`
	// Times is how many took how long, by the buckets of Latency: all but connections
	// that were upgraded and answers whose time was not measured.
	Times []LatencyCount `json:"times,omitempty"`
}

// Count is how many answers there were.
func (a *ResponseTotals) Count() uint64 {
	return a.OK + a.Redirect + a.Denied + a.ClientError + a.ServerError
}

func (a *ResponseTotals) checkTimes() error {
	if err := checkCounts(a.Times); err != nil {
		return fmt.Errorf("answered: %w", err)
	}
	return nil
}

// class is how a request was answered.
type class uint8

// Classes, as Answers tells them.
const (
	classOK class = iota
	classRedirect
	classDenied
	classClientError
	classServerError
	numClasses
)

// upgraded is the status of a connection that lasts as long as it likes.
const upgraded = 101

// classOf returns the class of a status.
func classOf(code int) class {
	switch {
	case code <= weir.NoAnswer || code >= 500:
		return classServerError
	case code >= 200 && code < 300 || code == upgraded:
		return classOK
	case code < 400:
		return classRedirect
	case code == 401 || code == 403 || code == 404:
		return classDenied
	}
	return classClientError
}

// answering counts how requests that passed under a limit were answered. Safe for
// concurrent use.
type answering struct {
	classes        [numClasses]atomic.Uint64
	total, longest atomic.Uint64 // µs
	times          latencies
}

func (a *answering) addResult(res *weir.Result) {
	a.classes[classOf(res.Code)].Add(1)
	if res.Code == upgraded || res.Duration <= 0 {
		return
	}
	a.times[LatencyBucket(res.Duration)].Add(1)
	us := uint64(micros.Of(res.Duration))
	a.total.Add(us)
	for {
		was := a.longest.Load()
		if us <= was || a.longest.CompareAndSwap(was, us) {
			return
		}
	}
}

// takeTotals returns what was counted since the last call, nil if nothing was. Of an answer
// that is counted at the same time a part may be left for the next call.
func (a *answering) takeTotals() *ResponseTotals {
	out := &ResponseTotals{
		OK: a.classes[classOK].Swap(0), Redirect: a.classes[classRedirect].Swap(0), Denied: a.classes[classDenied].Swap(0),
		ClientError: a.classes[classClientError].Swap(0), ServerError: a.classes[classServerError].Swap(0),
		TotalUS: a.total.Swap(0), LongestUS: a.longest.Swap(0), Times: a.times.takeCounts(),
	}
	if out.Count() == 0 && out.TotalUS == 0 && out.LongestUS == 0 && out.Times == nil {
		return nil
	}
	return out
}
