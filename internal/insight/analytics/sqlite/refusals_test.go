package sqlite_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
	"github.com/weirlimit/weir/internal/testing/race"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// refusals floods a database by decisions, most of which refuse, through all that is
// between a request and a row.
type refusals struct {
	// requests are made in all, perSecond of them in a second, of which least are to be
	// refused.
	requests, perSecond, least int
	// clients come in turns. Zero means that each comes once: none was seen before.
	clients     int
	rollupEvery time.Duration
	// memory is the most that it may add, in bytes.
	memory uint64
}

const (
	// askers is how many goroutines ask at a time.
	askers = 2
	// maxWaiting is the most memory of events that wait, in bytes: 200,000 of about a
	// KiB, and as much again that is not collected yet.
	maxWaiting = 512 << 20
	// freshPass is of how many requests of fresh clients one passes.
	freshPass = 127
)

// routes are what clients ask for, each of them always the same.
var routes = [...]string{"read", "write", "search", "export"}

// decided is how many requests were decided how.
type decided struct{ allowed, refused uint64 }

// run floods the database at a path and returns the most memory.
func (f *refusals) run(t *testing.T, path string) (most uint64) {
	t.Helper()
	worked := cpu(t)
	n := newNode(t, path, f.rollupEvery)
	start := time.Now()
	var of [askers]decided
	var asking sync.WaitGroup
	for i := range of {
		asking.Go(func() { of[i] = f.ask(t, n.Limiter, i) })
	}
	ended := make(chan struct{})
	go func() { asking.Wait(); close(ended) }()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	backlog := 0
	for asking := true; asking; {
		select {
		case <-look.C:
		case <-ended:
			asking = false
		}
		most, backlog = max(most, resident(t)), max(backlog, n.observer.Stats().Backlog)
	}
	took := time.Since(start)
	n.end(t)
	most = max(most, resident(t))
	var all decided
	for _, d := range of {
		all.allowed, all.refused = all.allowed+d.allowed, all.refused+d.refused
	}
	rate := float64(all.refused) / took.Seconds()
	t.Logf("%d refused and %d allowed in %s: %.0f refusals and %.0f decisions a second; at most %d events waited", all.refused, all.allowed, took.Round(time.Millisecond), rate, float64(f.requests)/took.Seconds(), backlog)
	t.Logf("kept %s after it had begun, by %s of processor time", time.Since(start).Round(time.Millisecond), (cpu(t) - worked).Round(time.Millisecond))
	if rate < float64(f.least) {
		t.Errorf("%.0f refusals a second, %.0f fewer than there are to be", rate, float64(f.least)-rate)
	}
	n.check(t, all, start)
	return most
}

// ask makes one in askers of the requests, in slices of 10 ms.
func (f *refusals) ask(t *testing.T, lim *weir.Limiter, first int) (out decided) {
	slice := f.perSecond / 100 / askers
	var c caller
	var r weir.Request
	var entry [1]weir.Entry
	start := time.Now()
	for n := first; n < f.requests; n += askers {
		if n/askers%slice == 0 {
			if ahead := time.Until(start.Add(time.Duration(n) * time.Second / time.Duration(f.perSecond))); ahead > 0 {
				timer := time.NewTimer(ahead)
				<-timer.C
			}
		}
		who, cost := n, int64(1)
		if f.clients > 0 {
			who %= f.clients
		} else if n%freshPass != 0 {
			cost = 2 // of one
		}
		c.be(who)
		r.Reset()
		entry[0] = weir.Entry{Key: routes[who%len(routes)], Value: c.addr.String()}
		r.Domain, r.Cost, r.Facts = "api", cost, &c
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: entry[:]})
		d, err := lim.Decide(t.Context(), &r)
		switch {
		case err != nil:
			t.Error(err)
			return out
		case d.Allowed():
			out.allowed++
		default:
			out.refused++
		}
	}
	return out
}

// caller is what is known about a client.
type caller struct{ addr netip.Addr }

// be makes it the client of a number. No two of 2^32 have one address.
func (c *caller) be(who int) {
	n := uint32(who) * 2654435769
	c.addr = netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func (c *caller) Address() netip.Addr { return c.addr }
func (*caller) Method() string        { return "GET" }
func (*caller) Host() string          { return "api.example.com" }
func (*caller) Path() string          { return "/poll" }
func (*caller) User() string          { return "" }
func (*caller) Tier() string          { return "" }
func (*caller) Agent() string         { return "curl/8.5.0" }

// tap is a queue that counts the decisions in the records that it takes. Observers
// publish one batch at a time.
type tap struct {
	*event.Local
	told    decided
	records int
	merged  uint64
}

func (q *tap) Publish(ctx context.Context, batch []event.Event) error {
	if err := q.Local.Publish(ctx, batch); err != nil {
		return err
	}
	for i := range batch {
		r := batch[i].Record
		if r == nil {
			continue
		}
		q.records++
		if r.Merged {
			q.merged += uint64(r.Count)
		}
		if r.Outcome == weir.Refused.String() {
			q.told.refused += uint64(r.Count)
		} else {
			q.told.allowed += uint64(r.Count)
		}
	}
	return nil
}

// node decides, tells and keeps in one process, as `weir serve` does by default.
type node struct {
	*weir.Limiter
	set      *limits.Set
	observer *event.Observer
	queue    *tap
	service  *analytics.Service
	stop     context.CancelFunc
	told     sync.WaitGroup
	kept     sync.WaitGroup
}

func newNode(t *testing.T, path string, rollupEvery time.Duration) *node {
	t.Helper()
	file := "domain: api\ndescriptors:\n"
	for _, route := range routes {
		file += fmt.Sprintf("  - {key: %s, limit: 1/day}\n", route)
	}
	n := &node{queue: &tap{Local: event.NewLocal(16)}}
	var err error
	if n.set, err = rules.Parse("api.yaml", []byte(file), rules.Options{}); err != nil {
		t.Fatal(err)
	}
	live := event.NewBroadcast(16)
	t.Cleanup(func() { _ = live.Close() }) // it has no errors
	if n.observer, err = event.New(event.Options{Queue: n.queue, Live: live, Limits: n.series, RollupEvery: rollupEvery}); err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{})
	t.Cleanup(func() { store.Close() })
	if n.Limiter, err = weir.New(store, n.set, weir.Options{Observers: []weir.Observer{n.observer}}); err != nil {
		t.Fatal(err)
	}
	db := opened(t, path)
	t.Cleanup(func() { db.Close() })
	if n.service, err = analytics.New(db, analytics.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	n.stop = stop
	n.told.Go(func() {
		if err := n.observer.Run(ctx); err != nil {
			t.Log(err) // of whose events check asks
		}
	})
	n.kept.Go(func() {
		if err := n.service.Run(t.Context(), n.queue); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *node) series() []limits.Ref {
	var out []limits.Ref
	for _, p := range n.set.Refs() {
		out = append(out, limits.Ref{Domain: p.Domain, Rule: p.Rule, Limit: p.Limit})
	}
	return out
}

// end tells and keeps what is left.
func (n *node) end(t *testing.T) {
	t.Helper()
	n.stop()
	n.told.Wait()
	if err := n.queue.Close(); err != nil {
		t.Error(err)
	}
	n.kept.Wait()
	if err := n.service.Tidy(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}

// check compares what was decided since an instant with what the limits counted, what
// the rows tell, and what records and their losses come to.
func (n *node) check(t *testing.T, want decided, since time.Time) {
	t.Helper()
	var counted decided
	for _, s := range n.series() {
		c := s.Limit.Counters()
		counted.allowed, counted.refused = counted.allowed+c.Load(weir.Allowed), counted.refused+c.Load(weir.Refused)
	}
	if counted != want {
		t.Errorf("the limits counted %+v of %+v", counted, want)
	}
	var o report.Overview
	analyticstest.Get(t, n.service, fmt.Sprintf("overview?from=%d&to=%d", since.Truncate(time.Minute).Unix(), time.Now().Truncate(time.Minute).Add(time.Minute).Unix()), &o)
	if got := (decided{uint64(o.Totals.Counts["allowed"]), uint64(o.Totals.Counts["refused"])}); got != want {
		t.Errorf("the rows tell %+v of %+v", got, want)
	}
	told, loss := n.queue.told, n.observer.Loss()
	lost := loss.Dropped + loss.Discarded
	t.Logf("%d records of %+v, %d of them merged; %+v", n.queue.records, told, n.queue.merged, loss)
	if loss.Rollups != 0 || loss.Failed != 0 {
		t.Errorf("more than records was lost: %+v", loss)
	}
	// Of what is allowed a sample is told, and that can be lost too.
	if told.refused > want.refused || told.allowed > want.allowed {
		t.Fatalf("records tell %+v of %+v", told, want)
	}
	if missing := want.refused - told.refused; lost < missing || lost > missing+want.allowed-told.allowed {
		t.Errorf("records leave out %d refusals, and say that %d decisions are lost", missing, lost)
	}
	sys := analyticstest.System(t, n.service)
	for _, x := range sys.Sources {
		if x.Unheard != 0 && loss.Discarded == 0 {
			t.Errorf("%d events were not heard of", x.Unheard)
		}
	}
	if sys.Service.Duplicates != 0 || sys.Service.Late != 0 {
		t.Errorf("events were counted twice or too late: %+v", sys.Service)
	}
	t.Logf("rows take %.0f MiB; %+v", float64(sys.Bytes)/(1<<20), sys.Service)
}

// bounded runs a flood and checks how much memory it added.
func (f *refusals) bounded(t *testing.T, path string) {
	t.Helper()
	debug.FreeOSMemory() // or what another test left would hide growth
	before := resident(t)
	most := f.run(t, path)
	t.Logf("memory: %d MiB before, at most %d MiB", before>>20, most>>20)
	if most > before+f.memory {
		t.Errorf("memory grew from %d MiB to %d MiB", before>>20, most>>20)
	}
}

// Five times as many a second as are promised: the ring need not hold them, and of
// clients that are known some are hot.
func TestRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("a flood takes seconds")
	}
	for name, clients := range map[string]int{"known clients": 2000, "fresh clients": 0} {
		t.Run(name, func(t *testing.T) {
			f := refusals{requests: 1_000_000, perSecond: 1_000_000, clients: clients, rollupEvery: time.Second, memory: 256 << 20}
			if race.Enabled { // which makes SQLite slow, and takes several times the memory
				f.requests, f.memory = f.requests/200, maxFlooded
			}
			f.bounded(t, sqlite.Memory)
		})
	}
}

// 200,000 refusals a second for a minute.
func TestSoakRefusals(t *testing.T) {
	if os.Getenv("WEIR_SOAK") == "" {
		t.Skip("a minute for each: WEIR_SOAK=1")
	}
	const perSecond = 202_000 // with what passes
	for name, clients := range map[string]int{"20000 clients": 20_000, "fresh clients": 0} {
		for _, path := range []string{sqlite.Memory, "file"} {
			t.Run(name+" "+path, func(t *testing.T) {
				if path == "file" {
					path = filepath.Join(t.TempDir(), "refusals.db")
				}
				f := refusals{requests: 60 * perSecond, perSecond: perSecond, least: 190_000, clients: clients, rollupEvery: 10 * time.Second, memory: maxFlooded + maxWaiting}
				f.bounded(t, path)
			})
		}
	}
}
