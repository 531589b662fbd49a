package traffic

import (
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir"
)

// Label is what a key in truth is.
type Label string

// Labels.
const (
	Legitimate Label = "legitimate"
	Shared     Label = "shared"
	Runaway    Label = "runaway"
	Abusive    Label = "abusive"
)

// Kind is what a rule's keys name.
type Kind string

// Kinds of keys.
const (
	Address Kind = "address"
	Account Kind = "account"
)

// Rule is a rule of a scenario: a limit for each address or for each user.
type Rule struct {
	Name string
	Kind Kind
	// Path is the only one that the rule is for. Empty means all.
	Path  string
	Limit *weir.Limit
}

// key returns the key of a request under the rule, empty if it does not meet it.
func (r *Rule) key(q *Request) string {
	if r.Path != "" && r.Path != q.Path {
		return ""
	}
	if r.Kind == Account {
		return q.User
	}
	return q.Address
}

// Request is one request of a client.
type Request struct {
	// At is when it comes, in microseconds since the Unix epoch.
	At   int64
	Cost int64
	// User is verified; empty means nobody is signed in.
	Address, User, Tier, Agent, Path string
	// Status is how the upstream answers if it passes, Took after how long.
	Status int
	Took   time.Duration
}

// Who is what is known of a key.
type Who struct {
	Label Label
	// Actor is the word for what made it: "office", "runaway_script".
	Actor string
}

// Scenario is made-up traffic, and the rules that it meets. It is played once.
type Scenario struct {
	Name  string
	Rules []*Rule
	// Start and End of the traffic, in microseconds since the Unix epoch.
	Start, End int64
	// From is when the range begins that clients are judged by; what comes before is
	// their history.
	From int64

	rng    *rand.Rand
	base   rate
	actors []*actor
	outage [2]int64 // when the upstream fails
	truth  map[Kind]map[string]Who
	queue  queue
	below  map[string][]string // numbered paths
	seq    int64
}

// rate is what the limit for everything allows.
type rate struct {
	units  int64
	period time.Duration
}

// every returns the time between requests at times the rate.
func (r rate) every(times float64) time.Duration {
	return time.Duration(float64(r.period) / (float64(r.units) * times))
}

// Truth returns what a key of a rule is.
func (s *Scenario) Truth(k Kind, key string) (Who, bool) {
	w, ok := s.truth[k][key]
	return w, ok
}

// Answer is what a client hears.
type Answer struct {
	Allowed    bool
	RetryAfter time.Duration
}

// Play has every request of the scenario decided, in order of time.
func (s *Scenario) Play(decide func(*Request) (Answer, error)) error {
	for _, a := range s.actors {
		s.push(turn{at: a.from, actor: a.id})
	}
	var q Request
	for s.queue.Len() > 0 {
		t := s.queue.pop()
		if t.at >= s.End {
			continue
		}
		a := s.actors[t.actor]
		if t.path == 0 {
			a.wake(s, t.at)
			continue
		}
		q = Request{At: t.at, Cost: 1, Address: a.address(), User: a.user, Tier: a.tier, Agent: a.agent(), Path: a.asks(s, t)}
		q.Status, q.Took = s.answer(a, t)
		got, err := decide(&q)
		if err != nil {
			return err
		}
		a.hear(s, t, &q, got)
	}
	return nil
}

// answer is how the upstream answers.
func (s *Scenario) answer(a *actor, t turn) (int, time.Duration) {
	if t.at >= s.outage[0] && t.at < s.outage[1] {
		return 503, 2 * time.Second
	}
	return a.status(a.rng), time.Duration(20+a.rng.IntN(180)) * time.Millisecond
}

func (s *Scenario) push(t turn) {
	s.seq++
	t.seq = s.seq
	s.queue.push(t)
}

// add adds an actor. Its key by address and by user is what its label says, unless
// they are shared.
func (s *Scenario) add(a *actor, address, user Label) {
	a.id = int32(len(s.actors))
	s.actors = append(s.actors, a)
	for _, addr := range a.addresses {
		if _, known := s.truth[Address][addr]; !known {
			s.truth[Address][addr] = Who{address, a.name}
		}
	}
	if a.user != "" {
		s.truth[Account][a.user] = Who{user, a.name}
	}
}
