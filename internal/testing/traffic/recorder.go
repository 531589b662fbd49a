package traffic

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/limits"
)

// Recorder makes the records that an event.Observer would make, on the clock of a
// scenario: an hour takes a second. That both tell the same is tested.
type Recorder struct {
	// Sample is how many keys there are for each whose allowed decisions are told.
	// Zero means none is.
	Sample uint64
	// Emit gets each record when its second is over.
	Emit func(*event.Record)

	trial   *Trial
	second  int64
	records map[cell]*sighted
	order   []cell
	wait    map[cell]int64 // until when a client was told to wait; no outcome
	watched map[string]int64
}

type cell struct {
	rule    *Rule
	key     string
	outcome weir.Outcome
}

// sighted is a record that is being made.
type sighted struct {
	event.Record
	users, agents, paths, addresses []string
}

// watchFor is how long a client is watched after a refusal.
const watchFor = 10 * time.Minute

// Record plays a scenario and records it.
func (c *Recorder) Record(s *Scenario) error {
	c.records, c.wait, c.watched = map[cell]*sighted{}, map[cell]int64{}, map[string]int64{}
	t, err := NewTrial(s, nil)
	if err != nil {
		return err
	}
	c.trial = t
	err = s.Play(func(q *Request) (Answer, error) {
		if second := q.At / 1e6; second != c.second {
			c.flush()
			c.second = second
		}
		a, err := t.Decide(q)
		if err == nil {
			c.observe(q, a)
		}
		return a, err
	})
	c.flush()
	if e := t.Close(); err == nil {
		err = e
	}
	return err
}

// observe takes in what each limit said of a request.
func (c *Recorder) observe(q *Request, a Answer) {
	ops := c.trial.Ops()
	d := weir.Fold(ops)
	for i := range ops {
		op, outcome := &ops[i], ops[i].Outcome
		if outcome == weir.Uncounted {
			continue
		}
		sampled := c.sampled(op.Key)
		if outcome != weir.Allowed {
			c.watched[op.Key] = q.At + watchFor.Microseconds()
		} else if !sampled && q.At >= c.watched[op.Key] {
			continue
		}
		rule := c.trial.scenario.rule(op.Limit)
		r := c.record(cell{rule, op.Key, outcome}, q, sampled)
		r.Count++
		r.Cost += op.Cost
		r.Last = time.UnixMicro(q.At).UTC()
		if op.Decision.Limit == d.Limit {
			r.Decisive++
		}
		client := cell{rule: rule, key: op.Key}
		if q.At < c.wait[client] {
			r.Early++
		}
		if outcome == weir.Refused {
			c.wait[client] = math.MaxInt64
			if op.Decision.RetryAfter != weir.Never {
				c.wait[client] = q.At + micros.Of(op.Decision.RetryAfter)
				r.RetryMS = max(r.RetryMS, op.Decision.RetryAfter.Milliseconds())
			}
		}
		if sampled && len(r.Arrivals) < event.MaxArrivals {
			r.Arrivals = append(r.Arrivals, event.Arrival{AtUS: q.At - r.First.UnixMicro(), Cost: op.Cost})
		} else {
			r.ArrivalsCut = sampled
		}
		r.record(q, a.Allowed)
	}
}

// record returns the record of a cell, a new one if there is none.
func (c *Recorder) record(at cell, q *Request, sampled bool) *sighted {
	if r := c.records[at]; r != nil {
		return r
	}
	at.key = strings.Clone(at.key)
	l := at.rule.Limit
	r := &sighted{Record: event.Record{
		First: time.UnixMicro(q.At).UTC(), Key: at.key, Unhashed: true, Outcome: at.outcome.String(), Every: 1,
		LimitRef: event.LimitRef{Name: limits.Name{Domain: "traffic", Rule: at.rule.Name, Limit: l.Name}, Algorithm: l.Algorithm.Name(),
			Allowance: l.Count, PeriodMS: l.Period.Milliseconds(), Burst: l.Burst},
	}}
	if at.outcome == weir.Allowed {
		if r.Watched = !sampled; sampled {
			r.Every = int64(c.Sample)
		}
	}
	c.records[at] = r
	c.order = append(c.order, at)
	return r
}

// record notes who asked and how it was answered.
func (r *sighted) record(q *Request, passed bool) {
	if r.About == nil {
		r.About = &event.About{}
	}
	a := r.About
	a.Address, a.Path, a.User, a.Tier, a.Agent = q.Address, q.Path, q.User, q.Tier, class(q.Agent)
	a.Users, a.Agents = different(&r.users, q.User), different(&r.agents, q.Agent)
	a.Paths, a.Addresses = different(&r.paths, q.Path), different(&r.addresses, q.Address)
	if !passed {
		return
	}
	if r.Answers == nil {
		r.Answers = &event.Answers{}
	}
	n := r.Answers
	n.Count++
	switch code := q.Status; {
	case code < 300:
		n.OK++
	case code < 400:
		n.Redirect++
	case code == 401, code == 403, code == 404:
		n.Denied++
	case code < 500:
		n.ClientError++
	default:
		n.ServerError++
	}
	n.TotalMS += q.Took.Milliseconds()
	n.LongestMS = max(n.LongestMS, q.Took.Milliseconds())
}

// different counts a value among those that were seen, up to event.MaxDifferent.
func different(seen *[]string, value string) int64 {
	if value != "" && len(*seen) < event.MaxDifferent && !slices.Contains(*seen, value) {
		*seen = append(*seen, value)
	}
	return int64(len(*seen))
}

// sampled reports whether a key belongs to the sample.
func (c *Recorder) sampled(key string) bool {
	if c.Sample == 0 {
		return false
	}
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()%c.Sample == 0
}

func (c *Recorder) flush() {
	for _, at := range c.order {
		c.Emit(&c.records[at].Record)
	}
	clear(c.records)
	c.order = c.order[:0]
}

// class is the class of the names that actors have.
func class(agent string) string {
	for _, c := range [...][2]string{{"Mozilla", "browser"}, {"python", "python"}, {"Go-http", "go"}, {"axios", "node"},
		{"okhttp", "java"}, {"curl", "curl"}, {"Bot", "bot"}} {
		if strings.Contains(agent, c[0]) {
			return c[1]
		}
	}
	return "other"
}
