package event_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

// kept is a queue that keeps what it is given.
type kept struct {
	mu     sync.Mutex
	events []event.Event
	// refuse is how many more batches are not taken.
	refuse atomic.Int64
}

var errBroken = errors.New("the queue is broken")

func (k *kept) Publish(_ context.Context, batch []event.Event) error {
	if k.refuse.Add(-1) >= 0 {
		return errBroken
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, batch...)
	return nil
}

func (k *kept) Close() error { return nil }

// tally sums what was told, by limit, key and outcome of records and by limit and
// outcome of roll-ups.
type tally struct{ records, rollups map[string]int64 }

func (k *kept) tally(t *testing.T) tally {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	out := tally{map[string]int64{}, map[string]int64{}}
	seen := map[string]bool{}
	late := false // whether records that were left to the end have begun
	for i, e := range k.events {
		if seen[e.ID()] {
			t.Errorf("event %s told twice", e.ID())
		}
		seen[e.ID()] = true
		if i > 0 && e.Sequence <= k.events[i-1].Sequence {
			// Where more than a batch is left at the end, its records come last.
			if late || e.Record == nil || k.events[i-1].Record != nil {
				t.Errorf("event %d after %d", e.Sequence, k.events[i-1].Sequence)
			}
			late = true
		}
		if r := e.Record; r != nil {
			out.records[fmt.Sprint(r.Rule, " ", r.Key, " ", r.Outcome)] += r.Count
		}
		if r := e.Rollup; r != nil {
			for o, n := range r.Counts {
				out.rollups[fmt.Sprint(r.Rule, " ", o)] += int64(n)
			}
		}
	}
	return out
}

func (k *kept) all() []event.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.events)
}

// testbed is a limiter whose decisions are observed.
type testbed struct {
	*weir.Limiter
	*event.Observer
	queue *kept
	stop  func() error
}

// observe returns a limiter under its own limits on a clock that the test moves, or the
// real one where now is nil.
func observe(t *testing.T, now func() int64, opt event.Options, own ...*weir.Limit) *testbed {
	t.Helper()
	b := &testbed{queue: &kept{}}
	if opt.Queue == nil {
		opt.Queue = b.queue
	}
	opt.Secret = []byte("0123456789abcdef")
	opt.Limits = func() []limits.Ref {
		var out []limits.Ref
		for i, l := range own {
			out = append(out, limits.Ref{Domain: "d", Rule: fmt.Sprint("rule", i), Limit: l})
		}
		return out
	}
	var err error
	if b.Observer, err = event.New(opt); err != nil {
		t.Fatal(err)
	}
	b.Limiter = limiterOf(t, b.Observer, now, own...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	b.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = b.stop() })
	return b
}

// limiterOf returns a limiter that o observes.
func limiterOf(t *testing.T, o weir.Observer, now func() int64, limits ...*weir.Limit) *weir.Limiter {
	t.Helper()
	s := memory.New(memory.Options{Now: now})
	t.Cleanup(func() { s.Close() })
	l, err := weir.New(s, weir.Limits(limits), weir.Options{Observers: []weir.Observer{o}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (b *testbed) ask(t *testing.T, key string, cost int64) weir.Decision {
	t.Helper()
	d, err := b.Take(context.Background(), key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func perMinute(n int64, change func(*weir.Limit)) *weir.Limit {
	l := weir.PerMinute(n, algorithm.FixedWindow)
	if change != nil {
		change(l)
	}
	return l
}

// Under any traffic, with every key in the sample: records tell each decision of
// each client once, and roll-ups agree with them and with what the caller saw.
func TestEverythingIsToldOnce(t *testing.T) {
	hard, soft := perMinute(5, nil), perMinute(4, func(l *weir.Limit) { l.Name, l.Excess = "soft", 100 })
	shadow := perMinute(3, func(l *weir.Limit) { l.Name, l.Shadow = "shadow", true })
	b := observe(t, nil, event.Options{Sample: 1, Unhashed: true, Every: 10 * time.Millisecond, RollupEvery: 50 * time.Millisecond, MaxRecords: 1 << 20, Ring: 1 << 17},
		hard, soft, shadow)
	var mu sync.Mutex
	want := map[string]int64{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r := b.Acquire()
			defer b.Recycle(r)
			for range 3000 {
				r.Reset()
				r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: fmt.Sprint("client", rand.IntN(300))}}})
				if _, err := b.Decide(context.Background(), r); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, op := range r.Ops() {
					if op.Outcome != weir.Uncounted {
						rule := map[*weir.Counters]int{hard.Counters(): 0, soft.Counters(): 1, shadow.Counters(): 2}[op.Limit.Counters()]
						want[fmt.Sprintf("rule%d %s %s", rule, op.Key, op.Outcome)]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	got := b.queue.tally(t)
	if l := b.Loss(); l != (event.Loss{}) {
		t.Fatalf("lost %+v", l)
	}
	for k, n := range want {
		if got.records[k] != n {
			t.Errorf("%s: told %d times, want %d", k, got.records[k], n)
		}
	}
	if len(got.records) != len(want) {
		t.Errorf("%d kinds of records, want %d", len(got.records), len(want))
	}
	rollups := map[string]int64{}
	for k, n := range want {
		f := strings.Fields(k)
		rollups[f[0]+" "+f[2]] += n
	}
	if fmt.Sprint(rollups) != fmt.Sprint(got.rollups) {
		t.Errorf("roll-ups %v, want %v", got.rollups, rollups)
	}
	for _, o := range []string{"allowed", "refused", "soft", "shadow_refused"} {
		if !strings.Contains(fmt.Sprint(rollups), o) {
			t.Errorf("no decision was %s: the test shows too little", o)
		}
	}
}

// Outside the sample only those are told who were limited, and what they are
// allowed afterwards.
func TestOnlyTheLimitedAreTold(t *testing.T) {
	b := observe(t, nil, event.Options{Sample: -1, Unhashed: true}, perMinute(3, nil))
	for range 3 {
		b.ask(t, "good", 1)
	}
	for range 5 {
		b.ask(t, "bad", 1)
	}
	if _, err := b.Take(context.Background(), "bad", 0); err != nil { // a look is no decision
		t.Fatal(err)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	got := b.queue.tally(t)
	if want := map[string]int64{"rule0 bad refused": 2}; fmt.Sprint(got.records) != fmt.Sprint(want) {
		t.Errorf("told %v, want %v", got.records, want)
	}
	if want := map[string]int64{"rule0 allowed": 6, "rule0 refused": 2}; fmt.Sprint(got.rollups) != fmt.Sprint(want) {
		t.Errorf("roll-ups %v, want %v", got.rollups, want)
	}
}

// A record says what the limit was, how long the client was told to wait and
// whether it did.
func TestRecord(t *testing.T) {
	const noon = int64(20_454*86400+12*3600) * 1e6
	var now atomic.Int64
	now.Store(noon)
	l := perMinute(2, nil)
	b := observe(t, now.Load, event.Options{Sample: -1}, l)
	for _, at := range []int64{0, 1, 2, 30, 59, 60, 61} { // seconds: two pass, three are refused, then the next minute
		now.Store(noon + at*1e6)
		b.ask(t, "secret@example.org", 1)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	var told []*event.Record
	for _, e := range b.queue.all() {
		if e.Record != nil {
			told = append(told, e.Record)
		}
	}
	slices.SortFunc(told, func(a, b *event.Record) int { return strings.Compare(b.Outcome, a.Outcome) })
	if len(told) != 2 {
		t.Fatalf("%d records, want one of refusals and one of what was allowed after", len(told))
	}
	r := told[0]
	key := r.Key
	if len(key) != 32 || strings.Contains(key, "secret") || r.Unhashed {
		t.Errorf("key %q is not a hash of 128 bits", key)
	}
	want := event.Record{
		First: time.UnixMicro(noon + 2e6).UTC(), Last: time.UnixMicro(noon + 59e6).UTC(),
		LimitRef: event.LimitRef{Name: limits.Name{Domain: "d", Rule: "rule0", Limit: "2/minute"}, Algorithm: "fixed_window", Allowance: 2, PeriodMS: 60_000, Burst: 2},
		Key:      key, Outcome: "refused", Count: 3, Decisive: 3, Cost: 3, Early: 2, RetryMS: 58_000, Source: "store", Every: 1,
	}
	if !reflect.DeepEqual(*r, want) {
		t.Errorf("got  %+v\nwant %+v", *r, want)
	}
	want.First, want.Last = time.UnixMicro(noon+60e6).UTC(), time.UnixMicro(noon+61e6).UTC()
	want.Outcome, want.Count, want.Decisive, want.Cost, want.Early, want.RetryMS, want.Watched = "allowed", 2, 2, 2, 0, 0, true
	if !reflect.DeepEqual(*told[1], want) {
		t.Errorf("got  %+v\nwant %+v", *told[1], want)
	}
}

// Keys that are too long to be kept are still told apart.
func TestLongKeys(t *testing.T) {
	b := observe(t, nil, event.Options{Sample: -1, Unhashed: true}, perMinute(1, nil))
	long := strings.Repeat("x", 500)
	for _, key := range []string{long + "a", long + "b", "short"} {
		b.ask(t, key, 1)
		b.ask(t, key, 1)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, e := range b.queue.all() {
		if r := e.Record; r != nil {
			keys[r.Key] = true
			if r.Unhashed != (r.Key == "short") {
				t.Errorf("key %q is plain: %v", r.Key, r.Unhashed)
			}
		}
	}
	if len(keys) != 3 {
		t.Errorf("%d keys told, want 3: %v", len(keys), keys)
	}
}

// More clients than there is room for are told together, and none is left out.
func TestManyClientsAreMerged(t *testing.T) {
	b := observe(t, nil, event.Options{Sample: -1, MaxRecords: 10, Every: time.Minute, RollupEvery: time.Minute}, perMinute(1, nil))
	for i := range 100 {
		b.ask(t, fmt.Sprint(i), 2)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	var records, alone, together int64
	for _, e := range b.queue.all() {
		if r := e.Record; r != nil {
			records++
			if r.Merged {
				together += r.Count
			} else {
				alone += r.Count
			}
			if r.Merged != (r.Key == "") {
				t.Errorf("merged %v with key %q", r.Merged, r.Key)
			}
		}
	}
	if records != 11 || alone != 10 || together != 90 {
		t.Errorf("%d records, of %d clients alone and %d together", records, alone, together)
	}
}

// A queue that fails for a while loses nothing and gets everything in order; one
// that does not come back loses what there is no room for, and that is counted.
func TestBrokenQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := observe(t, nil, event.Options{Sample: -1, MaxBacklog: 50}, perMinute(1, nil))
		b.queue.refuse.Store(3)
		for i := range 20 {
			b.ask(t, fmt.Sprint(i), 2)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(b.queue.tally(t).records); n != 20 {
			t.Fatalf("%d records after the queue came back, want 20", n)
		}
		b.queue.refuse.Store(1 << 40)
		for i := range 500 {
			b.ask(t, fmt.Sprint("more", i), 2)
			if i%10 == 0 {
				time.Sleep(4 * time.Second) // roll-ups come in between
			}
		}
		time.Sleep(time.Minute)
		b.queue.refuse.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		got := b.queue.tally(t)
		var told int64
		for _, n := range got.records {
			told += n
		}
		l := b.Loss()
		if l.Discarded == 0 || told+int64(l.Discarded) != 520 {
			t.Errorf("%d told and %d discarded, want 520 together", told, l.Discarded)
		}
		if n := got.rollups["rule0 refused"]; n != 520 || l.Rollups != 0 {
			t.Errorf("roll-ups tell of %d, and %d were discarded", n, l.Rollups)
		}
		last := b.queue.all()[len(b.queue.all())-1]
		if last.Loss == nil || last.Loss.Discarded != l.Discarded {
			t.Errorf("the last event does not tell the loss: %+v", last)
		}
	})
}

// A queue that is gone at the end is an error, and what is lost with it counted.
func TestStopWithoutAQueue(t *testing.T) {
	b := observe(t, nil, event.Options{Sample: -1}, perMinute(1, nil))
	b.queue.refuse.Store(1 << 40)
	b.ask(t, "k", 2)
	if err := b.stop(); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if l := b.Loss(); l.Discarded != 1 || l.Rollups != 1 {
		t.Errorf("lost %+v", l)
	}
}

// A ring that is full drops, and counts what it drops.
func TestFullRing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := observe(t, nil, event.Options{Sample: -1, Ring: 64, Unhashed: true}, perMinute(1, nil))
		synctest.Wait() // Run sleeps, and time stands still
		for range 1000 {
			b.ask(t, "k", 2)
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		got := b.queue.tally(t)
		if told, dropped := got.records["rule0 k refused"], b.Loss().Dropped; told != 64 || dropped != 1000-64 {
			t.Errorf("%d told, %d dropped", told, dropped)
		}
		if n := got.rollups["rule0 refused"]; n != 1000 {
			t.Errorf("the roll-ups tell of %d, want all 1000", n)
		}
	})
}

// A flood of one client's refusals is counted on the spot, to the last one, and
// leaves the ring to others.
func TestFlood(t *testing.T) {
	b := observe(t, nil, event.Options{Sample: -1, Unhashed: true, Every: 50 * time.Millisecond, RollupEvery: 50 * time.Millisecond, Ring: 1 << 16}, perMinute(1, nil))
	const each = 150_000
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range each {
				b.ask(t, "flood", 2)
				if i%1000 == 0 {
					b.ask(t, "other", 2)
				}
			}
		})
	}
	wg.Wait()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	got, lost := b.queue.tally(t), int64(b.Loss().Dropped)
	flood, other := got.records["rule0 flood refused"], got.records["rule0 other refused"]
	const want = 2 * (each + each/1000)
	if flood+other+lost != want || got.rollups["rule0 refused"] != want {
		t.Errorf("%d and %d told, %d dropped, of %d; roll-ups tell of %d", flood, other, lost, want, got.rollups["rule0 refused"])
	}
	var decisive, cost, early, count int64
	for _, e := range b.queue.all() {
		if r := e.Record; r != nil && r.Key == "flood" {
			count += r.Count
			decisive += r.Decisive
			cost += r.Cost
			early += r.Early
			if r.Last.Before(r.First) || r.Outcome != "refused" || r.Rule != "rule0" {
				t.Fatalf("record %+v", r)
			}
		}
	}
	if decisive != count || cost != 2*count || early != count-1 {
		t.Errorf("of %d refusals %d were decisive and %d early, and they cost %d", count, decisive, early, cost)
	}
}

// What a client does while it is counted on the spot and then no longer is told to
// the last decision too.
func TestFloodEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := observe(t, nil, event.Options{Sample: -1, Unhashed: true}, perMinute(1, nil))
		asked := int64(0)
		for _, n := range []int{100, 1, 1000, 3} {
			for range 1000 {
				b.ask(t, "k", 2)
			}
			time.Sleep(20 * time.Millisecond) // it is noticed, and counted on the spot
			for range n {
				b.ask(t, "k", 2)
			}
			asked += 1000 + int64(n)
			time.Sleep(time.Second)
			synctest.Wait()
			if told := b.queue.tally(t).records["rule0 k refused"]; told != asked {
				t.Fatalf("%d told, %d asked", told, asked)
			}
		}
	})
}

// The heaviest are known on the node.
func TestTop(t *testing.T) {
	b := observe(t, nil, event.Options{Sample: -1, Unhashed: true}, perMinute(1, nil))
	for i := range 50 {
		for range i + 1 {
			b.ask(t, fmt.Sprintf("client%02d", i), 2)
		}
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	top := b.Top(3)
	var got []string
	for _, h := range top {
		got = append(got, fmt.Sprint(h.Rule, " ", h.Key, " ", h.Refused, " ", h.Error))
	}
	if want := "[rule0 client49 50 0 rule0 client48 49 0 rule0 client47 48 0]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// Being observed costs no allocation, whatever the outcome.
func TestObserveAllocatesNothing(t *testing.T) {
	b := observe(t, nil, event.Options{Sample: 1}, perMinute(100, nil))
	entries := []weir.Entry{{Key: "key", Value: "client"}}
	var r weir.Request
	n := testing.AllocsPerRun(1000, func() {
		r.Reset()
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: entries})
		if _, err := b.Decide(context.Background(), &r); err != nil {
			t.Fatal(err)
		}
	})
	// What Run allocates in the background is counted too, less than one each.
	if n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	q, limits := &kept{}, func() []limits.Ref { return nil }
	for name, opt := range map[string]event.Options{
		"no queue":     {Limits: limits},
		"no limits":    {Queue: q},
		"short secret": {Queue: q, Limits: limits, Secret: []byte("short")},
		"too often":    {Queue: q, Limits: limits, Every: time.Millisecond},
		"uneven":       {Queue: q, Limits: limits, Every: 7 * time.Second},
		"huge ring":    {Queue: q, Limits: limits, Ring: 1 << 30},
		"no room":      {Queue: q, Limits: limits, MaxRecords: -1},
	} {
		if _, err := event.New(opt); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
