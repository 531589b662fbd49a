package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

// all is a queue that keeps events.
type all struct {
	mu     sync.Mutex
	events slice
}

// Publish implements event.Queue.
func (q *all) Publish(_ context.Context, batch []event.Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, batch...)
	return nil
}

// Close implements event.Queue.
func (q *all) Close() error { return nil }

// serverOf is an upstream that answers one request after the other, so many a second,
// and refuses those that would have to wait for longer than two seconds.
type serverOf struct {
	perSecond float64
	free      time.Time
	rng       *rand.Rand
}

func (s *serverOf) answer(now time.Time) (status int, took time.Duration) {
	if s.free.Before(now) {
		s.free = now
	}
	if s.free.Sub(now) > 2*time.Second {
		return 503, 3 * time.Millisecond
	}
	s.free = s.free.Add(time.Duration((0.5 + s.rng.Float64()) / s.perSecond * float64(time.Second)))
	return 200, s.free.Sub(now)
}

// passed is what became of the requests of a minute.
type passed struct {
	admitted, refused, errors int64
	took                      []time.Duration
}

// capacity is what the upstream can answer in a second.
const capacity = 15

// hour sends requests at a rate that rises and falls through a limit to an upstream
// that it is too much for at times, and returns what became of those of each minute and
// what an observer told of them.
func hour(t *testing.T) (from time.Time, minutes []passed, events slice) {
	minutes = make([]passed, 60)
	queue := &all{}
	bubble.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{Now: func() int64 { return time.Now().UnixMicro() }})
		limit := &weir.Limit{Name: "per_second", Algorithm: algorithm.FixedWindow, Count: 20, Period: time.Second}
		if err := limit.Compile(); err != nil {
			t.Fatal(err)
		}
		observer, err := event.New(event.Options{Queue: queue, Sample: 100, Secret: make([]byte, 16), Every: time.Minute,
			Limits: func() []limits.Ref { return []limits.Ref{{Domain: "traffic", Rule: "all", Limit: limit}} }})
		if err != nil {
			t.Fatal(err)
		}
		limiter, err := weir.New(store, weir.Limits{limit}, weir.Options{Observers: []weir.Observer{observer}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running, under sync.WaitGroup
		running.Go(func() {
			if err := observer.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		rng := rand.New(rand.NewPCG(11, 12))
		upstream := &serverOf{perSecond: capacity, rng: rng}
		from = time.Now().UTC()
		var mu sync.Mutex
		for minute := range minutes {
			// From 3 to 23 a second.
			rate := 13 - 10*math.Cos(float64(minute)/60*4*math.Pi) + rng.Float64()
			for offset := 100 * time.Millisecond; offset < 59*time.Second; offset += time.Duration(rng.ExpFloat64() / rate * float64(time.Second)) {
				now := from.Add(time.Duration(minute)*time.Minute + offset)
				time.Sleep(time.Until(now))
				r := limiter.Acquire()
				r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "client", Value: "all"}}})
				d, err := limiter.Decide(ctx, r)
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed() {
					minutes[minute].refused++
					limiter.Recycle(r)
					continue
				}
				minutes[minute].admitted++
				status, took := upstream.answer(now)
				// Not just when a minute begins, where the ticks of roll-ups are.
				if at := now.Add(took); at.Sub(at.Truncate(time.Minute)) < 50*time.Millisecond {
					took += 50 * time.Millisecond
				}
				under.Go(func() {
					time.Sleep(took)
					limiter.End(r, weir.Result{Code: status, Duration: took})
					limiter.Recycle(r)
					mu.Lock()
					defer mu.Unlock()
					m := &minutes[int(time.Since(from)/time.Minute)]
					m.took = append(m.took, took)
					if status >= 500 {
						m.errors++
					}
				})
			}
		}
		under.Wait()
		time.Sleep(time.Until(from.Add(61 * time.Minute)))
		stop()
		running.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return from, minutes, queue.events
}

// percentile of durations that are in order.
func percentile(sorted []time.Duration, percent int) float64 {
	return sorted[(len(sorted)*percent+99)/100-1].Seconds() * 1000
}

// A generated hour of traffic goes through the limiter to an upstream of known
// capacity, and the service tells of each minute what was sent and how it was answered.
func TestUpstreamOfAnHour(t *testing.T) {
	from, minutes, events := hour(t)
	db, err := sqlite.Open(t.Context(), sqlite.Memory)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	service, err := analytics.New(db, analytics.Options{Now: func() time.Time { return from.Add(62 * time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Run(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	var u report.Upstream
	rec := httptest.NewRecorder()
	service.Handler().ServeHTTP(rec, httptest.NewRequest("GET", fmt.Sprintf("/v1/analytics/upstream?step=1m&from=%d&to=%d", from.Unix(), from.Unix()+3600), nil))
	if err := json.Unmarshal(rec.Body.Bytes(), &u); err != nil || rec.Code != 200 {
		t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	near := func(what string, got float64, sorted []time.Duration, percent int) {
		t.Helper()
		if exact := percentile(sorted, percent); got < exact || got > exact*1.125+1e-5 {
			t.Errorf("%s: %d in 100 took at most %v ms, told is %v", what, percent, exact, got)
		}
	}
	for i := range minutes {
		m := &minutes[i]
		slices.Sort(m.took)
		what := fmt.Sprint("minute ", i)
		got := [5]int64{u.Admitted[i], u.Refused[i], u.Answers[i].Count, u.Answers[i].ServerError, u.Answers[i].OK}
		if want := [5]int64{m.admitted, m.refused, int64(len(m.took)), m.errors, int64(len(m.took)) - m.errors}; got != want {
			t.Errorf("%s: admitted, refused, answers, server errors, OK are %v, want %v", what, got, want)
		}
		near(what, u.P50MS[i], m.took, 50)
		near(what, u.P99MS[i], m.took, 99)
	}
	if u.Total.ServerError == 0 || slices.Max(u.Refused) == 0 {
		t.Error("no server errors, or no refusals: that shows nothing")
	}
}
