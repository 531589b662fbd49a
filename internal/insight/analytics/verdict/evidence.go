package verdict

import "time"

// Kind says what the keys of a rule name.
type Kind string

// Kinds of keys.
const (
	// Address: the key is, or contains, the address that requests come from, and
	// nothing that names a user.
	Address Kind = "address"
	// Account: the key names a user, a tenant, an API key.
	Account Kind = "account"
	// Unknown: neither is known to be so.
	Unknown Kind = ""
)

// Evidence is what is known of one client under one limit in a range of time. All
// of it can be had from the records of package event; [Gatherer] does so.
//
// Records tell what passed of a client for ten minutes after a refusal, and of
// sampled keys always. So counts of what passed can miss the time before.
type Evidence struct {
	Kind Kind `json:"kind"`
	// From and To are the range.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Allowance units are allowed in a Period.
	Allowance int64         `json:"allowance"`
	Period    time.Duration `json:"-"`

	// Demand is how many decisions there were, Allowed of which passed and Refused
	// of which were refused, or would have been but for shadow mode.
	Demand  int64 `json:"demand"`
	Allowed int64 `json:"allowed"`
	Refused int64 `json:"refused"`
	// Shadowed is how many of the refusals were in shadow mode: the client was not
	// told of them, and what it does when it is refused is not known by them.
	Shadowed int64 `json:"shadowed,omitempty"`
	// Early is how many decisions came before the Retry-After of an earlier
	// refusal was over.
	Early int64 `json:"early"`

	// Units is what all decisions asked for together.
	Units int64 `json:"units"`
	// Unseen is how many units must have passed that nobody told of: a limit by the
	// hour that refuses is used up, by what came while the client was not watched.
	Unseen int64 `json:"unseen,omitempty"`
	// Peak is the most units asked for in one Period, Unseen included.
	Peak int64 `json:"peak"`
	// Burst is that with which a token bucket of the limit's rate would have refused
	// nothing: the most that the demand was ever ahead of the rate. It is high by up to
	// the demand of one span.
	Burst int64 `json:"burst"`
	// Spans is how many equal spans lie between the first demand and the last, both
	// included: minutes, or whatever was kept. Active is how many of them had any
	// demand, and Spread the coefficient of variation of the demand between all of them.
	Spans  int64   `json:"spans"`
	Active int64   `json:"active"`
	Spread float64 `json:"spread"`
	// Run is how many spans there are from the first refusal after a pause until the last
	// demand. Ongoing says that the client is still there when it is judged, Cut that the
	// refusals begin at From, so that more may have come before. They are zero and false
	// unless it is judged in progress: see Gatherer.InProgress.
	Run     int64 `json:"run,omitempty"`
	Ongoing bool  `json:"ongoing,omitempty"`
	Cut     bool  `json:"cut,omitempty"`
	// Busiest is the most units asked for in one second, of the busiest span, and
	// SpanPeak the most in one span. Busiest is zero where seconds were not kept.
	Busiest  int64 `json:"busiest,omitempty"`
	SpanPeak int64 `json:"span_peak"`
	// Span is how long one is.
	Span time.Duration `json:"-"`

	// Answers is how what passed was answered. Nil where nobody told.
	Answers *Answers `json:"answers,omitempty"`

	// Identified says that front ends told who asked. Then Users of 0 means that
	// nobody was verified; else it means nothing.
	Identified bool `json:"identified"`
	// Users, Agents, Paths and Addresses are how many different ones there were at
	// least. Zero where none is known.
	Users     int64 `json:"users,omitempty"`
	Agents    int64 `json:"agents,omitempty"`
	Paths     int64 `json:"paths,omitempty"`
	Addresses int64 `json:"addresses,omitempty"`
	// Path is the one that was asked for, where there was only one.
	Path string `json:"path,omitempty"`
	// Agent is the class of the client's software, see event.About: of most rows.
	Agent string `json:"agent,omitempty"`

	// FirstSeen is when the client was first told of, up to seven days before From.
	FirstSeen time.Time `json:"first_seen"`
	// Sampled says that the client's key belongs to the sample, so that everything
	// it does is told. Of other clients nothing is told while they are not limited.
	Sampled bool `json:"sampled"`
	// History is how many spans, of HistorySpan each, in the seven days before From had
	// any demand that was told. Usual is the demand that 95 in 100 of those did not exceed, in units per
	// Period. Before says how far back records go at all.
	History int64         `json:"history"`
	Usual   float64       `json:"usual"`
	Before  time.Duration `json:"-"`
	// HistorySpan is often longer than Span.
	HistorySpan time.Duration `json:"-"`
}

// Overshoot is the peak as a multiple of what is allowed.
func (e *Evidence) Overshoot() float64 {
	if e.Allowance <= 0 {
		return 0
	}
	return float64(e.Peak) / float64(e.Allowance)
}

// Mean is the units asked for in a Period, in the mean over the whole range.
func (e *Evidence) Mean() float64 {
	if !e.To.After(e.From) {
		return 0
	}
	return float64(e.Units) * e.Period.Seconds() / e.To.Sub(e.From).Seconds()
}

// Pressure is what the client asked for in the spans in which it came, together at
// least a Period long, as a multiple of what is allowed in that time. A client that
// only comes in bursts is below 1.
func (e *Evidence) Pressure() float64 {
	return e.multipleOfRate(e.Units+e.Unseen, max(time.Duration(e.Active)*e.Span, e.Period))
}

// Pace is what the client asked for in the spans in which it came, as a multiple of
// the limit's mean rate. With periods longer than it stayed it is above Pressure.
func (e *Evidence) Pace() float64 {
	return e.multipleOfRate(e.Units, time.Duration(e.Active)*e.Span)
}

// multipleOfRate returns units in so long a time as a multiple of what is allowed in it.
func (e *Evidence) multipleOfRate(units int64, length time.Duration) float64 {
	if length <= 0 || e.Allowance <= 0 {
		return 0
	}
	return float64(units) / float64(e.Allowance) * e.Period.Seconds() / length.Seconds()
}

// Rush is how many times as much the client asked for in its busiest second as in
// the mean of its busiest span. A program that sends at one pace is near 1. Zero
// where seconds were not kept.
func (e *Evidence) Rush() float64 { return ratio(e.Busiest*int64(e.Span/time.Second), e.SpanPeak) }

// Enforced is how many refusals the client was told of.
func (e *Evidence) Enforced() int64 { return e.Refused - e.Shadowed }

// EarlyShare is how many came too early for each refusal that the client was told
// of, at most 1. Clients that obey Retry-After are near 0.
func (e *Evidence) EarlyShare() float64 { return min(ratio(e.Early, e.Enforced()), 1) }

// Answers is how requests that passed were answered.
type Answers struct {
	Count    int64 `json:"count"`
	OK       int64 `json:"ok"`
	Redirect int64 `json:"redirect"`
	// Denied is 401, 403 and 404.
	Denied int64 `json:"denied"`
}

func (a *Answers) addAnswers(b *Answers) {
	a.Count += b.Count
	a.OK += b.OK
	a.Redirect += b.Redirect
	a.Denied += b.Denied
}

func ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
