package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Replay answers GET /v1/analytics/replay: what a limit with other numbers would
// have decided on the arrivals of sampled keys that are kept. It is decided anew by
// the limiter's own code, for each key from a fresh state on, and as if no other
// limit were met.
type Replay struct {
	Coverage query.Coverage `json:"coverage"`
	// Limit is the limit as it is, Edited with the numbers of the query.
	Limit  rows.Limit `json:"limit"`
	Edited rows.Limit `json:"edited_limit"`
	// Unsupported says why the arrivals do not show what either would have decided. Then
	// the rest is zero.
	Unsupported string `json:"unsupported_reason,omitempty"`
	// First and Last are the first and the last arrival. Nil where there are none.
	First *time.Time `json:"first,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
	// Keys and Decisions are how many were replayed: of one in Coverage.Every keys.
	// Cut says that arrivals are missing between them.
	Keys      int64 `json:"keys"`
	Decisions int64 `json:"decisions"`
	Cut       bool  `json:"truncated"`
	// Recorded is what was decided when they came, with the numbers and beside the
	// limits of then; Own what the limit as it is decides on them, With what the
	// edited one does.
	Recorded Replayed `json:"recorded"`
	Own      Replayed `json:"current"`
	With     Replayed `json:"edited"`
	// Refused is how many decisions With refuses and Own does not, Admitted the
	// reverse, and of how many keys those are.
	Refused  ReplayChange `json:"newly_refused"`
	Admitted ReplayChange `json:"newly_admitted"`
	// At are the beginnings of the intervals. Of each there is how many decisions came
	// and how many of them Own and With refuse.
	At          []time.Time `json:"at"`
	Came        []int64     `json:"arrivals"`
	OwnRefused  []int64     `json:"current_refused"`
	WithRefused []int64     `json:"edited_refused"`
	// Clients are those with the most changes.
	Clients []ReplayedClient `json:"clients"`
}

// Replayed is what was decided on all arrivals.
type Replayed struct {
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
	// Delayed counts decisions that pass and wait, LongestDelayMS is the longest wait.
	// Both are zero in Recorded, which does not know.
	Delayed        int64 `json:"delayed"`
	LongestDelayMS int64 `json:"longest_delay_ms"`
	// Keys is how many keys were refused at least once.
	Keys int64 `json:"keys_refused"`
}

// ReplayChange is how many decisions are others, and of how many keys.
type ReplayChange struct {
	Decisions int64 `json:"decisions"`
	Keys      int64 `json:"keys"`
}

// ReplayedClient is a sampled client.
type ReplayedClient struct {
	Key       string `json:"key"`
	Decisions int64  `json:"decisions"`
	// RecordedRefused, OwnRefused and WithRefused are as in Replay.
	RecordedRefused int64 `json:"recorded_refused"`
	OwnRefused      int64 `json:"current_refused"`
	WithRefused     int64 `json:"edited_refused"`
}

// maxReplayed is how many decisions are replayed.
const maxReplayed = 200_000

func accuracyOf(l rows.Limit) accuracy.Limit {
	return accuracy.Limit{Algorithm: l.Algorithm, Allowance: l.Allowance, Period: time.Duration(l.PeriodMS) * time.Millisecond, Burst: l.Burst}
}

// reportReplay decides what came under one limit again.
// It reads the arrivals, and returns what replays them.
func reportReplay(r *query.Reader) func() (any, error) {
	names := r.ListNames()
	if len(names) > 1 {
		r.RecordFailure(&query.ParamError{Name: "limit", What: "is missing: " + strconv.Itoa(len(names)) + " limits are meant, such as " + names[0].String() + " and " + names[1].String()})
		return nil
	}
	n := r.CountSteps()
	out := &Replay{At: r.ListSteps(), Came: make([]int64, n), OwnRefused: make([]int64, n), WithRefused: make([]int64, n), Clients: []ReplayedClient{}}
	play := func() {}
	if len(names) == 1 {
		play = out.readArrivals(r, names[0])
	}
	out.Coverage = r.ReadCoverage()
	out.Coverage.Basis = "records"
	return func() (any, error) {
		play()
		return out, nil
	}
}

// readArrivals reads the arrivals of a limit, and returns what replays them.
func (out *Replay) readArrivals(r *query.Reader, n query.Name) (play func()) {
	play = func() {}
	out.Limit = r.FindNewest(n)
	out.Edited = r.Edit.ApplyTo(out.Limit)
	own, err := accuracy.NewReplay(accuracyOf(out.Limit))
	if err != nil {
		out.Unsupported = fmt.Sprintf("what %s decides is not a matter of arrivals alone", out.Limit.Algorithm)
		return play
	}
	with, err := accuracy.NewReplay(accuracyOf(out.Edited))
	if err != nil {
		out.Unsupported = err.Error()
		return play
	}
	keys := map[string][]accuracy.Arrival{}
	r.EachArrivals(func(_ int64, client string, arrivals []accuracy.Arrival, cut bool) {
		keys[client] = append(keys[client], arrivals...)
		out.Cut = out.Cut || cut
	})
	out.narrowRange(r, keys)
	return func() { out.decideAgain(r, own, with, keys) }
}

// decideAgain decides arrivals again.
func (out *Replay) decideAgain(r *query.Reader, own, with *accuracy.Replay, keys map[string][]accuracy.Arrival) {
	var a, b []accuracy.Arrival
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		arrivals := keys[key]
		if out.Decisions+int64(len(arrivals)) > maxReplayed {
			out.Coverage.Missing = append(out.Coverage.Missing, strconv.Itoa(maxReplayed)+" decisions are replayed, of more")
			break
		}
		sortArrivals(arrivals)
		a, b = own.DecideKey(a[:0], arrivals), with.DecideKey(b[:0], arrivals)
		c := out.addKey(r.Ask, arrivals, a, b)
		c.Key = key
		if c.OwnRefused != c.WithRefused {
			out.Clients = append(out.Clients, c)
		}
	}
	change := func(c *ReplayedClient) int64 { return max(c.OwnRefused-c.WithRefused, c.WithRefused-c.OwnRefused) }
	slices.SortStableFunc(out.Clients, func(a, b ReplayedClient) int { return cmp.Compare(change(&b), change(&a)) })
	if len(out.Clients) > r.Top {
		out.Clients = out.Clients[:r.Top]
	}
}

// narrowRange makes the range of an answer that of the arrivals, since none are kept
// before the first: of less than a day the steps are finer then.
func (out *Replay) narrowRange(r *query.Reader, keys map[string][]accuracy.Arrival) {
	var first, last int64
	for _, arrivals := range keys {
		for _, a := range arrivals {
			if first == 0 {
				first, last = a.At, a.At
			}
			first, last = min(first, a.At), max(last, a.At)
		}
	}
	if first == 0 || r.StepAsked {
		return
	}
	r.Ask.ChooseGrain(first/1e6, last/1e6+1, 0, false, r.Bounds)
	n := r.CountSteps()
	out.At, out.Came, out.OwnRefused, out.WithRefused = r.ListSteps(), make([]int64, n), make([]int64, n), make([]int64, n)
}

// addKey adds one key, with what was decided, what the limit decides, and what
// the edited one does.
func (out *Replay) addKey(a *query.Ask, recorded, own, with []accuracy.Arrival) ReplayedClient {
	out.Keys++
	var refused, admitted int64
	for i := range recorded {
		at := time.UnixMicro(recorded[i].At).UTC()
		if out.First == nil || at.Before(*out.First) {
			out.First = &at
		}
		if out.Last == nil || at.After(*out.Last) {
			out.Last = &at
		}
		out.Decisions++
		p := min(a.FindStep(recorded[i].At/1e6), len(out.At)-1)
		out.Came[p]++
		out.OwnRefused[p] += rows.CountTrue(!own[i].Admitted)
		out.WithRefused[p] += rows.CountTrue(!with[i].Admitted)
		refused += rows.CountTrue(own[i].Admitted && !with[i].Admitted)
		admitted += rows.CountTrue(!own[i].Admitted && with[i].Admitted)
	}
	out.Refused.addChanges(refused)
	out.Admitted.addChanges(admitted)
	return ReplayedClient{Decisions: int64(len(recorded)), RecordedRefused: out.Recorded.addDecisions(recorded), OwnRefused: out.Own.addDecisions(own), WithRefused: out.With.addDecisions(with)}
}

func (c *ReplayChange) addChanges(decisions int64) {
	c.Decisions += decisions
	c.Keys += rows.CountTrue(decisions > 0)
}

// addDecisions counts the decisions on one key and returns how many refused.
func (s *Replayed) addDecisions(decided []accuracy.Arrival) (refused int64) {
	for _, d := range decided {
		switch {
		case !d.Admitted:
			refused++
			continue
		case d.Delay > 0:
			s.Delayed++
			s.LongestDelayMS = max(s.LongestDelayMS, rows.DivideUp(d.Delay, 1000))
		}
		s.Admitted++
	}
	s.Refused += refused
	s.Keys += rows.CountTrue(refused > 0)
	return refused
}

// sortArrivals puts arrivals in order of time. Of two at one instant those that passed
// come first.
func sortArrivals(arrivals []accuracy.Arrival) {
	slices.SortStableFunc(arrivals, func(a, b accuracy.Arrival) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(rows.CountTrue(b.Admitted), rows.CountTrue(a.Admitted)))
	})
}
