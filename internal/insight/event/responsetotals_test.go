package event

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

// answers lets requests of as many keys pass and answers them.
func answerAll(t *testing.T, lim *weir.Limiter, results []weir.Result) {
	t.Helper()
	for i, res := range results {
		r := lim.Acquire()
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: string(rune('a' + i%26))}}})
		if d, err := lim.Decide(t.Context(), r); err != nil || !d.Allowed() {
			t.Errorf("%v, %v", d, err)
		}
		lim.End(r, res)
		lim.Recycle(r)
	}
}

// Every answer counts under each limit that the request passed, though no key is told
// of, and once.
func TestAnswersAreAllCounted(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	own := weir.Limits{weir.PerDay(100_000, algorithm.TokenBucket), weir.PerHour(100_000, algorithm.FixedWindow)}
	o, err := New(Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return []limits.Ref{{Limit: own[0]}, {Limit: own[1]}} }, Sample: -1})
	if err != nil {
		t.Fatal(err)
	}
	lim, err := weir.New(store, own, weir.Options{Observers: []weir.Observer{o}})
	if err != nil {
		t.Fatal(err)
	}
	o.rollups.from = time.Now()
	o.rollups.learnLimits()
	took := []time.Duration{time.Microsecond, 700 * time.Microsecond, 90 * time.Millisecond, 90 * time.Millisecond, 3 * time.Second, time.Hour}
	results := []weir.Result{
		{Code: 200, Duration: took[0]}, {Code: 204, Duration: took[1]}, {Code: 302, Duration: took[2]}, {Code: 404, Duration: took[3]},
		{Code: 418, Duration: took[4]}, {Code: weir.NoAnswer, Duration: took[5]}, {Code: 503, Duration: took[0]},
		{Code: 101, Duration: 5 * time.Hour}, {Code: 200}, // without a time
	}
	const times = 50
	var all sync.WaitGroup
	for range times {
		all.Go(func() { answerAll(t, lim, results) })
	}
	all.Wait()
	want := ResponseTotals{OK: 4 * times, Redirect: times, Denied: times, ClientError: times, ServerError: 2 * times, LongestUS: 3600 * 1e6}
	n := map[int]uint64{}
	for _, d := range append(took, took[0]) {
		want.TotalUS += times * uint64(d.Microseconds())
		n[LatencyBucket(d)] += times
	}
	check := func(what string, want ResponseTotals, n map[int]uint64) {
		t.Helper()
		rollups := o.rollups.takeRollups(time.Now())
		if len(rollups) != 2 {
			t.Fatalf("%s: %d roll-ups", what, len(rollups))
		}
		for _, r := range rollups {
			got := r.Responses
			if got == nil {
				t.Fatalf("%s: no answers", what)
			}
			for _, c := range got.Times {
				if c.Count != n[c.Bucket] {
					t.Errorf("%s: %d in bucket %d, want %d", what, c.Count, c.Bucket, n[c.Bucket])
				}
			}
			if len(got.Times) != len(n) {
				t.Errorf("%s: %d buckets, want %d", what, len(got.Times), len(n))
			}
			plain := *got
			plain.Times = nil
			if !same(&plain, &want) {
				t.Errorf("%s: %+v, want %+v", what, plain, want)
			}
		}
	}
	check("all", want, n)
	answerAll(t, lim, results[:1])
	check("one more", ResponseTotals{OK: 1, TotalUS: 1, LongestUS: 1}, map[int]uint64{LatencyBucket(took[0]): 1})
	if s := o.ring.nextSighting(); s != nil {
		t.Errorf("a record is told: %+v", s)
	}
	if r := o.rollups.takeRollups(time.Now()); len(r) != 0 {
		t.Errorf("without an answer: %+v", r[0])
	}
	// Answers alone, to requests of before, are told too.
	late := lim.Acquire()
	late.Descriptors = append(late.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: "late"}}})
	if _, err := lim.Decide(context.Background(), late); err != nil {
		t.Fatal(err)
	}
	o.rollups.takeRollups(time.Now())
	lim.End(late, weir.Result{Code: 500, Duration: time.Microsecond})
	check("late", ResponseTotals{ServerError: 1, TotalUS: 1, LongestUS: 1}, map[int]uint64{LatencyBucket(took[0]): 1})
}

// Whatever status there is belongs to one class, of records and roll-ups alike.
func TestClassesOfAnswers(t *testing.T) {
	var a answering
	r := &record{}
	codes := []int{weir.NoAnswer, weir.ClientGone, 99, 100, 101, 200, 299, 300, 399, 400, 401, 403, 404, 405, 499, 500, 599, weir.MaxCode}
	for _, code := range codes {
		a.addResult(&weir.Result{Code: code})
		r.countAnswer(&sighting{status: int16(min(max(code, math.MinInt16), math.MaxInt16))})
	}
	got, told := a.takeTotals(), r.answers.buildAnswers()
	if got.Count() != uint64(len(codes)) || slices.Max([]uint64{got.OK, got.Redirect, got.Denied, got.ClientError, got.ServerError}) == got.Count() ||
		[5]int64{int64(got.OK), int64(got.Redirect), int64(got.Denied), int64(got.ClientError), int64(got.ServerError)} != [5]int64{told.OK, told.Redirect, told.Denied, told.ClientError, told.ServerError} {
		t.Errorf("roll-ups say %+v, records %+v", got, told)
	}
}

// To count an answer costs no allocation.
func TestAnswersDoNotAllocate(t *testing.T) {
	l := weir.PerDay(1000, algorithm.TokenBucket)
	o, lim, r := decided(t, l, 1)
	if n := testing.AllocsPerRun(100, func() { lim.End(r, weir.Result{Code: 200, Duration: time.Millisecond}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := o.rollups.meterOf(l).responses.takeTotals(); got == nil || got.OK != 101 {
		t.Errorf("counted %+v", got)
	}
}
