package traffic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/limits"
)

// kept is a queue that keeps records.
type kept struct {
	mu      sync.Mutex
	records []*event.Record
}

// Publish implements event.Queue.
func (k *kept) Publish(_ context.Context, batch []event.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range batch {
		if e.Record != nil {
			k.records = append(k.records, e.Record)
		}
	}
	return nil
}

// Close implements event.Queue.
func (k *kept) Close() error { return nil }

// cast is some of every sort, for ten minutes.
func cast() *Scenario {
	c := Cast{Seed: 5, Length: 10 * time.Minute, Actors: map[string]int{"office": 1, "customer": 1, "batch": 1, "stuffer": 1, "scanner": 1, "script": 1, "visitor": 2}}
	for _, r := range []struct {
		kind Kind
		algo weir.Algorithm
	}{{Address, algorithm.SlidingWindow}, {Account, algorithm.TokenBucket}} {
		c.Rules = append(c.Rules, NewRule(string(r.kind), r.kind, &weir.Limit{Algorithm: r.algo, Count: 40, Period: time.Minute}))
	}
	return c.Make()
}

// sum is what records tell of one client with one outcome.
type sum struct {
	count, cost, decisive, early, arrivals int64
	answers                                event.Answers
	users, agents, paths                   int64
}

func sums(records []*event.Record) map[string]sum {
	out := map[string]sum{}
	for _, r := range records {
		k := r.Rule + " " + r.Key + " " + r.Outcome
		s := out[k]
		s.count += r.Count
		s.cost += r.Cost
		s.decisive += r.Decisive
		s.early += r.Early
		s.arrivals += int64(len(r.Arrivals))
		if a := r.Answers; a != nil {
			s.answers.Count += a.Count
			s.answers.OK += a.OK
			s.answers.Redirect += a.Redirect
			s.answers.Denied += a.Denied
			s.answers.ClientError += a.ClientError
			s.answers.ServerError += a.ServerError
		}
		if a := r.About; a != nil {
			s.users, s.agents, s.paths = max(s.users, a.Users), max(s.agents, a.Agents), max(s.paths, a.Paths)
		}
		out[k] = s
	}
	return out
}

// A Recorder tells what the real observer tells of the same traffic, which runs
// here on a clock of its own, and verdicts on both are the same.
func TestRecorderTellsWhatObserversDo(t *testing.T) {
	var quick []*event.Record
	recorder := Recorder{Sample: 1, Emit: func(r *event.Record) { quick = append(quick, r) }}
	if err := recorder.Record(cast()); err != nil {
		t.Fatal(err)
	}
	queue, s := &kept{}, cast()
	bubble.Test(t, func(t *testing.T) {
		observer, err := event.New(event.Options{Queue: queue, Unhashed: true, Sample: 1, Secret: make([]byte, 16), Limits: func() (out []limits.Ref) {
			for _, r := range s.Rules {
				out = append(out, limits.Ref{Domain: "traffic", Rule: r.Name, Limit: r.Limit})
			}
			return out
		}})
		if err != nil {
			t.Fatal(err)
		}
		trial, err := NewTrial(s, nil, observer)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := observer.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		begin := time.Now()
		err = s.Play(func(q *Request) (Answer, error) {
			time.Sleep(time.Until(begin.Add(time.Duration(q.At-s.Start) * time.Microsecond)))
			return trial.Decide(q)
		})
		if err != nil {
			t.Error(err)
		}
		stop()
		running.Wait()
		if l := observer.Loss(); l != (event.Loss{}) {
			t.Errorf("lost %+v", l)
		}
		if err := trial.Close(); err != nil {
			t.Error(err)
		}
	})
	want, got := sums(queue.records), sums(quick)
	if len(want) < 10 || !maps.Equal(want, got) {
		for k := range want {
			if want[k] != got[k] {
				t.Errorf("%s: the observer tells %+v, the recorder %+v", k, want[k], got[k])
			}
		}
		t.Errorf("%d clients and outcomes, and %d", len(want), len(got))
	}
	if a, b := verdictsOf(s, queue.records), verdictsOf(s, quick); len(a) < 4 || !slices.Equal(a, b) {
		t.Errorf("verdicts differ:\n%v\n%v", a, b)
	}
}

func verdictsOf(s *Scenario, records []*event.Record) (out []string) {
	var table Table
	for _, r := range records {
		table.Add(r)
	}
	for _, c := range table.Cases(s) {
		if c.Evidence.Refused > 0 {
			out = append(out, fmt.Sprint(c.Rule.Name, " ", c.Key, " ", verdict.Classify(c.Evidence).Class))
		}
	}
	return out
}

// The same seed makes the same traffic.
func TestScenariosRepeat(t *testing.T) {
	for _, build := range []func(uint64) *Scenario{Tuning, Held} {
		var first []Request
		for round := range 2 {
			s := build(8)
			s.End = s.From + (5 * time.Minute).Microseconds()
			trial, err := NewTrial(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			i, refused := 0, 0
			err = s.Play(func(q *Request) (Answer, error) {
				if round == 0 {
					first = append(first, *q)
				} else if i >= len(first) || first[i] != *q {
					t.Fatalf("request %d differs", i)
				}
				i++
				a, err := trial.Decide(q)
				if !a.Allowed {
					refused++
				}
				return a, err
			})
			if err != nil || i < 100 || i != len(first) || refused == 0 {
				t.Errorf("%s: %d requests, %d of them refused, and %d before; %v", s.Name, i, refused, len(first), err)
			}
			if err := trial.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Whoever obeys is never early, whoever ignores is.
func TestReactions(t *testing.T) {
	for _, c := range []struct {
		react       reaction
		least, most float64
	}{{obeys, 0, 0}, {ignores, 0.9, 1}} {
		s := (&Cast{Seed: 1, Length: 20 * time.Minute, Rules: []*Rule{NewRule("address", Address, &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 30, Period: time.Minute})}}).Make()
		a := s.actor("one", c.react)
		a.act = steady(500*time.Millisecond, 0, 0)
		s.add(a, Legitimate, Legitimate)
		var table Table
		if err := (&Recorder{Emit: table.Add}).Record(s); err != nil {
			t.Fatal(err)
		}
		cases := table.Cases(s)
		if len(cases) != 1 {
			t.Fatalf("%d clients", len(cases))
		}
		if e := cases[0].Evidence; e.Refused < 15 || e.EarlyShare() < c.least || e.EarlyShare() > c.most {
			t.Errorf("reaction %d: %d refused, %.2f early", c.react, e.Refused, e.EarlyShare())
		}
	}
}
