package analyticstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

// Decision is what one limit said of one request, written down when it was said:
// what every figure is computed from by itself.
type Decision struct {
	At             int64 // µs since the Unix epoch
	Node           string
	Rule           int // of Rules
	Key            string
	Outcome        string
	Cost           int64
	Decided        bool
	Remaining      int64
	RetryUS        int64 // of a refusal; -1 for never
	Request        *request
	Status, TookMS int64 // zero where it did not pass
}

// Traffic is some minutes of traffic of known clients, and what an observer told
// of it.
type Traffic struct {
	From, To  time.Time
	Rules     []limits.Ref
	Decisions []Decision
	Events    []event.Event
}

// request is what a client sends.
type request struct {
	node, address, user, tier, path, agent string
	cost                                   int64
	status, tookMS                         int64
}

func (q *request) Address() netip.Addr { return netip.MustParseAddr(q.address) }
func (q *request) Method() string      { return "GET" }
func (q *request) Host() string        { return "api.example" }
func (q *request) Path() string        { return q.path }
func (q *request) User() string        { return q.user }
func (q *request) Tier() string        { return q.tier }
func (q *request) Agent() string       { return q.agent }

// minutes is how long the traffic is.
const minutes = 6

// Make makes traffic by two real limiters, nodes, with an observer each, of which
// one in sample keys is told completely.
func Make(t *testing.T, sample int64) *Traffic {
	t.Helper()
	tr := &Traffic{}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
		tr.From = time.Now().UTC()
		tr.Rules = []limits.Ref{
			{Domain: "api", Rule: "remote_address", Limit: limit(60, time.Minute, algorithm.FixedWindow, false)},
			{Domain: "api", Rule: "user", Limit: limit(5, time.Second, algorithm.TokenBucket, false)},
			{Domain: "api", Rule: "path_/login", Limit: limit(20, time.Minute, algorithm.SlidingWindow, true)},
		}
		nodes := []*node{newNode(t, tr, "east", sample), newNode(t, tr, "west", sample)}
		play(tr, nodes)
		for _, n := range nodes {
			n.stop()
			tr.Decisions = append(tr.Decisions, n.decisions...)
			tr.Events = append(tr.Events, n.events...)
		}
		tr.To = tr.From.Add(minutes * time.Minute)
	})
	return tr
}

func limit(count int64, period time.Duration, a weir.Algorithm, shadow bool) *weir.Limit {
	l := &weir.Limit{Name: fmt.Sprint(a.Name(), "_", count), Algorithm: a, Count: count, Period: period}
	l.Shadow = shadow
	if err := l.Compile(); err != nil {
		panic(err)
	}
	return l
}

// node is a limiter with an observer.
type node struct {
	name      string
	t         *testing.T
	tr        *Traffic
	limiter   *weir.Limiter
	current   *request
	limits    []*weir.Limit // its own counters
	decisions []Decision
	mu        sync.Mutex
	events    []event.Event
	stop      func()
}

func newNode(t *testing.T, tr *Traffic, name string, sample int64) *node {
	n := &node{name: name, t: t, tr: tr}
	series := make([]limits.Ref, len(tr.Rules))
	for i, s := range tr.Rules {
		l := limit(s.Limit.Count, s.Limit.Period, s.Limit.Algorithm, s.Limit.Shadow)
		n.limits = append(n.limits, l)
		series[i] = limits.Ref{Domain: s.Domain, Rule: s.Rule, Limit: l}
	}
	o, err := event.New(event.Options{Queue: n, Limits: func() []limits.Ref { return series }, Node: name, Unhashed: true, Sample: sample,
		Secret: []byte("0123456789abcdef"), Ring: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{MaxBytes: 16 << 20, Now: func() int64 { return time.Now().UnixMicro() }})
	if n.limiter, err = weir.New(store, n, weir.Options{Observers: []weir.Observer{o, n}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	n.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	return n
}

// Match implements weir.Rules: the address, the user if there is one, and the
// address at /login.
func (n *node) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	q := n.current
	dst = n.limits[0].Append(dst, q.address, q.cost, r)
	if q.user != "" {
		dst = n.limits[1].Append(dst, q.user, q.cost, r)
	}
	if q.path == "/login" {
		dst = n.limits[2].Append(dst, "login "+q.address, q.cost, r)
	}
	return dst
}

// Publish implements event.Queue.
func (n *node) Publish(_ context.Context, batch []event.Event) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, batch...)
	return nil
}

func retryUS(d weir.Decision) int64 {
	if d.RetryAfter == weir.Never {
		return -1
	}
	return micros.Of(d.RetryAfter)
}

// Close implements event.Queue.
func (n *node) Close() error { return nil }

// Observe implements weir.Observer: it writes down what was said.
func (n *node) Observe(r *weir.Request, d weir.Decision, err error) {
	if err != nil {
		n.t.Error(err)
		return
	}
	for _, op := range r.Ops() {
		if op.Outcome == weir.Uncounted {
			continue
		}
		n.decisions = append(n.decisions, Decision{At: op.Now, Node: n.name, Rule: slices.IndexFunc(n.limits, func(l *weir.Limit) bool { return l.Counters() == op.Limit.Counters() }),
			Key: op.Key, Outcome: op.Outcome.String(), Cost: op.Cost, Decided: op.Decision.Limit == d.Limit, Remaining: op.Decision.Remaining,
			RetryUS: retryUS(op.Decision), Request: n.current})
	}
}

func (n *node) send(q *request) {
	n.current = q
	r := n.limiter.Acquire()
	defer n.limiter.Release(context.Background(), r)
	r.Facts = q
	from := len(n.decisions)
	d, err := n.limiter.Decide(context.Background(), r)
	if err != nil {
		n.t.Fatal(err)
	}
	if d.Allowed() {
		n.limiter.End(r, weir.Result{Code: int(q.status), Duration: time.Duration(q.tookMS) * time.Millisecond})
		for i := range n.decisions[from:] {
			n.decisions[from+i].Status, n.decisions[from+i].TookMS = q.status, q.tookMS
		}
	}
}

// play sends the requests of some minutes: an office behind one address, a script,
// an attacker, a burst now and then, and others who are never limited.
func play(tr *Traffic, nodes []*node) {
	rng := rand.New(rand.NewPCG(1, 2))
	time.Sleep(50 * time.Millisecond)
	for tick := range minutes * 60 * 5 { // five a second
		second := tick / 5
		var now []*request
		add := func(q request) {
			if q.cost == 0 {
				q.cost = 1
			}
			if q.status == 0 {
				q.status, q.tookMS = 200, 3+rng.Int64N(40)
			}
			if second/60 == 3 && len(now)%7 == 3 { // a minute in which the upstream is in trouble
				q.status, q.tookMS = 500, 1500+rng.Int64N(3000)
			}
			now = append(now, &q)
		}
		if rng.IntN(2) == 0 { // the office: twelve users
			u := rng.IntN(12)
			add(request{address: "192.0.2.1", user: fmt.Sprint("office", u), tier: "gold", path: fmt.Sprint("/docs/", rng.IntN(5)), agent: "Mozilla/5.0 (X11) Firefox/140.0"})
		}
		for range 2 { // the script: ten a second, always
			add(request{address: "198.51.100.7", path: "/poll", agent: "python-requests/2.31"})
		}
		if second >= 120 && second < 200 { // the attacker
			for range 5 {
				add(request{address: "203.0.113.66", path: "/login", agent: "curl/8.0", status: 401, tookMS: 9})
			}
		}
		if second%90 < 2 { // a user with bursts
			for range 3 {
				add(request{address: "192.0.2.77", user: "burst", tier: "free", path: "/export", agent: "Go-http-client/2.0", cost: 2})
			}
		}
		if u := rng.IntN(40); tick%2 == 0 {
			add(request{address: fmt.Sprint("192.0.2.", 100+u), user: fmt.Sprint("u", u), tier: "free", path: fmt.Sprint("/p", u%4), agent: "Mozilla/5.0 (X11) Firefox/140.0"})
		}
		for i, q := range now {
			q.node = nodes[0].name
			n := nodes[0]
			// Each client has a node of its own, as behind a balancer that hashes.
			if len(q.address)%2 == 0 {
				n, q.node = nodes[1], nodes[1].name
			}
			time.Sleep(time.Duration(1+i) * 100 * time.Microsecond)
			n.send(q)
		}
		// To 50 ms behind the tick, far from where seconds end.
		next := tr.From.Add(time.Duration(tick+1)*200*time.Millisecond + 50*time.Millisecond)
		time.Sleep(time.Until(next))
	}
	time.Sleep(2 * time.Minute) // the last roll-ups
}
