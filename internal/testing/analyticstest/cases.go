package analyticstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
)

// manyOfOne: the events of a source are counted once however many there are and in
// whatever order they come; also in pieces that overlap.
func manyOfOne(t *testing.T, open func() rows.Database, _ *Traffic) {
	const many = 9000
	var now atomic.Int64
	s, a := newService(t, open(), &now, rows.Bounds{})
	source := &teller{source: "n/1"}
	var events []event.Event
	for i := range many {
		events = append(events, source.rollup(start.Add(time.Duration(i%50)*time.Second), randomRef(), map[string]uint64{"allowed": uint64(i)}))
	}
	var batches [][]event.Event
	for from := 0; from < many; from += 1500 {
		batches = append(batches, events[from:min(from+2500, many)])
	}
	slices.Reverse(batches)
	consume(t, s, append(batches, events[:5000], events[5000:]))
	now.Store(300)
	var series report.Series
	a.get("series", &series)
	equal(t, "all decisions", series.Lines[0].Total, many*(many-1)/2)
	var sys report.System
	a.get("system", &sys)
	equal(t, "events and unheard", [2]int64{sys.Service.Events, sys.Sources[0].Unheard}, [2]int64{many, 0})
}

// broken is a database whose connection breaks in every second transaction, by lot:
// taking turns, those that a service makes in the background could take all the breaks.
// It breaks before one of the statements, or when all has been written.
type broken struct {
	rows.Database
	mu     sync.Mutex
	lots   *rand.Rand
	breaks int64
}

// broke is an error after which the transaction may be run again at once.
type broke struct{ error }

func (broke) Again() bool { return true }

var errBroken = broke{errors.New("the connection broke")}

// statements is how many a transaction that counts events has, about.
const statements = 18

func (b *broken) Update(ctx context.Context, f func(rows.Tx) error) error {
	left, breaks := b.draw()
	return b.Database.Update(ctx, func(tx rows.Tx) error {
		if !breaks {
			return f(tx)
		}
		if err := f(&breaking{tx, left}); err != nil {
			return err
		}
		return errBroken
	})
}

// draw reports whether a transaction breaks, and after how many statements.
func (b *broken) draw() (left int64, breaks bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lots.IntN(2) == 0 {
		return 0, false
	}
	b.breaks++
	return b.breaks % statements, true
}

// breaking is a transaction that breaks after so many statements.
type breaking struct {
	rows.Tx
	left int64
}

func (b *breaking) Each(query string, args [][]any, row func(int, rows.Row) error) error {
	if b.left--; b.left < 0 {
		return errBroken
	}
	return b.Tx.Each(query, args, row)
}

// allOrNothing: of a transaction that fails nothing stays.
func allOrNothing(t *testing.T, open func() rows.Database, tr *Traffic) {
	b := &broken{Database: open(), lots: rand.New(rand.NewPCG(7, 8))}
	s := Serve(t, b, tr)
	batches := Mixed(tr.Events, 1)
	var subset [][]event.Event
	for chunk := range slices.Chunk(batches, len(batches)/statements+1) { // fewer, as each waits when it fails
		subset = append(subset, slices.Concat(chunk...))
	}
	consume(t, s, subset)
	overview(&asked{t, s.Handler(), tr})
	clients(&asked{t, s.Handler(), tr})
	var sys report.System
	(&asked{t, s.Handler(), tr}).get("system", &sys)
	equal(t, "events and duplicates", [2]int64{sys.Service.Events, sys.Service.Duplicates}, [2]int64{int64(len(tr.Events)), 0})
	if sys.Service.Retries == 0 || sys.Service.Failing != "" {
		t.Errorf("%d retries, failing %q: want some, and no failure at last", sys.Service.Retries, sys.Service.Failing)
	}
}

// share is one of the sources of a queue that brings each batch to all of them but
// one, in the same order, so that several have it at a time.
type share struct {
	batches  [][]event.Event
	left, of int // the source leaves out one in so many batches, from this one on
}

func (q *share) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	for i, batch := range q.batches {
		if i%q.of == q.left {
			continue
		}
		if err := take(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (q *share) Close() error { return nil }

// twoServices: events that two services get at the same time are counted once.
func twoServices(t *testing.T, open func() rows.Database, tr *Traffic) {
	batches := Mixed(tr.Events, 1)
	const sources = 4
	services := []*analytics.Service{Serve(t, open(), tr), Serve(t, open(), tr)}
	var life sync.WaitGroup
	for i := range sources {
		s := services[i%2]
		life.Go(func() {
			if err := s.Run(t.Context(), &share{batches, i, sources}); err != nil {
				t.Error(err)
			}
		})
	}
	life.Wait()
	Truth(t, services[0].Handler(), tr)
	var events, duplicates int64
	for _, s := range services {
		events, duplicates = events+s.Info().Events, duplicates+s.Info().Duplicates
	}
	equal(t, "events and duplicates", [2]int64{events, duplicates}, [2]int64{int64(len(tr.Events)), (sources - 2) * int64(len(tr.Events))})
}

// teller makes events of one source.
type teller struct {
	source string
	n      uint64
}

func (s *teller) event(at time.Time) event.Event {
	s.n++
	return event.Event{Source: s.source, Sequence: s.n, Time: at}
}

func (s *teller) record(at time.Time, p event.LimitRef, key, outcome string, count int64) event.Event {
	e := s.event(at)
	e.Record = &event.Record{First: at, Last: at, LimitRef: p, Key: key, Outcome: outcome, Count: count, Cost: count, Every: 1, Source: "store"}
	return e
}

func (s *teller) rollup(at time.Time, p event.LimitRef, counts map[string]uint64) event.Event {
	e := s.event(at)
	e.Rollup = &event.Rollup{From: at, To: at.Add(time.Minute), LimitRef: p, Counts: counts}
	return e
}

func randomRef() event.LimitRef {
	return event.LimitRef{Name: limits.Name{Domain: "d", Rule: "r", Limit: "l"}, Algorithm: "fixed_window", Allowance: 10, PeriodMS: 60000, Burst: 10}
}

// start is when events of the smaller tests are.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newService returns a service whose time is what now says, in seconds after start.
func newService(t *testing.T, db rows.Database, now *atomic.Int64, bounds rows.Bounds) (*analytics.Service, *asked) {
	t.Helper()
	s, err := analytics.New(db, analytics.Options{Bounds: bounds, Now: func() time.Time { return start.Add(time.Duration(now.Load()) * time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	return s, &asked{t, s.Handler(), &Traffic{From: start, To: start.Add(time.Hour)}}
}

// bounds: of many clients the ones that were refused most stay, and the rest adds
// up.
func bounds(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	s, a := newService(t, open(), &now, rows.Bounds{MaxClients: 10})
	source := &teller{source: "n/1"}
	const clients = 500
	var events []event.Event
	want := int64(0)
	for i := range clients {
		e := source.record(start, randomRef(), fmt.Sprintf("key%03d", i), "refused", int64(i+1))
		e.Record.About = &event.About{Path: "/" + e.Record.Key}
		events = append(events, e)
		want += int64(i + 1)
	}
	for batch := range slices.Chunk(events, 100) {
		consume(t, s, [][]event.Event{batch})
		if err := s.Tidy(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	now.Store(90)
	var list report.ClientList
	a.get("clients?top=100", &list)
	equal(t, "clients", len(list.Clients), 10)
	got := list.Rest.Counts["refused"]
	for i, c := range list.Clients {
		got += c.Counts["refused"]
		equal(t, "client", c.Key, fmt.Sprintf("key%03d", clients-1-i))
	}
	equal(t, "refused by all", got, want)
	if list.Rest.Rows < clients-10-50 || len(list.Coverage.Missing) == 0 {
		t.Errorf("%d rows are merged, said is %q", list.Rest.Rows, list.Coverage.Missing)
	}
	var top report.Top
	a.get("top?by=path&top=1000", &top)
	equal(t, "words", len(top.Words), 10)
	equal(t, "word with the most", top.Words[0].Word, fmt.Sprintf("/key%03d", clients-1))
	// The sketches have seen all.
	var o report.Overview
	a.get("overview", &o)
	near(t, "keys limited", float64(o.KeysLimited), clients, 0.08)
}

// forgets: rows go when their time is over, the finest first.
func forgets(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	s, a := newService(t, open(), &now, rows.Bounds{KeepMinutes: 2 * time.Hour, KeepHours: 48 * time.Hour, KeepDays: 30 * 24 * time.Hour,
		KeepClientMinutes: time.Hour, KeepClientHours: 24 * time.Hour, KeepArrivals: time.Hour, KeepSeen: 24 * time.Hour})
	source := &teller{source: "n/1"}
	r := source.record(start, randomRef(), "k", "refused", 7)
	r.Record.Arrivals = []event.Arrival{{AtUS: 0, Cost: 7}}
	r.Record.About = &event.About{Path: "/x"}
	l := source.event(start)
	l.Loss = &event.Loss{Dropped: 1}
	u := source.rollup(start, randomRef(), map[string]uint64{"refused": 7})
	u.Rollup.Latency = &event.Latency{Every: 256, Counts: []event.LatencyCount{{Bucket: 30, Count: 1}}}
	u.Rollup.Responses = &event.ResponseTotals{OK: 1}
	u.Rollup.Requests = map[string]uint64{"refused": 7}
	consume(t, s, [][]event.Event{{r, u, l}})
	rows := func() map[string]int64 {
		if err := s.Tidy(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		var sys report.System
		a.get("system", &sys)
		out := map[string]int64{}
		for _, x := range sys.Tables {
			out[strings.TrimSpace(x.Name+" "+x.Grain)] = x.Rows
		}
		return out
	}
	gone := func(after time.Duration, names ...string) {
		t.Helper()
		now.Store(int64(after.Seconds()))
		for name, n := range rows() {
			if name == "losses" {
				continue
			}
			if went := n == 0; went != slices.Contains(names, name) {
				t.Errorf("after %s: %d rows of %s", after, n, name)
			}
		}
	}
	gone(time.Minute)
	gone(90*time.Minute, "clients minute", "arrivals")
	gone(4*time.Hour, "clients minute", "arrivals", "rollups minute", "requests minute", "latencies minute", "answered minute", "sketches minute")
	most := []string{"clients minute", "arrivals", "rollups minute", "requests minute", "latencies minute", "answered minute", "sketches minute", "clients hour", "words", "seen"}
	gone(30*time.Hour, most...)
	var series report.Series
	a.get("series?from=-31h", &series)
	equal(t, "by hours that are still there", series.Lines[0].Total, 7)
	most = append(most, "rollups hour", "requests hour", "latencies hour", "answered hour", "sketches hour", "sources")
	gone(5*24*time.Hour, most...)
	gone(40*24*time.Hour, append(most, "rollups day", "requests day", "latencies day", "answered day", "sketches day", "limits")...)
}

// backFill: late events go to their own time, and what is too late is counted as
// such, once.
func backFill(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	now.Store(4 * 3600)
	s, a := newService(t, open(), &now, rows.Bounds{KeepMinutes: 2 * time.Hour, KeepHours: 48 * time.Hour, KeepDays: 72 * time.Hour, KeepClientMinutes: time.Hour,
		KeepClientHours: 24 * time.Hour, KeepSeen: 5 * time.Hour})
	source := &teller{source: "n/1"}
	recent, old, ancient := start.Add(3*time.Hour), start, start.Add(-2*time.Hour)
	batch := []event.Event{
		source.rollup(recent, randomRef(), map[string]uint64{"refused": 1}), source.record(recent, randomRef(), "k", "refused", 1),
		source.rollup(old, randomRef(), map[string]uint64{"refused": 10}), source.record(old, randomRef(), "k", "refused", 10),
		source.rollup(ancient, randomRef(), map[string]uint64{"refused": 100}), source.record(ancient, randomRef(), "k", "refused", 100),
	}
	consume(t, s, [][]event.Event{batch, batch})
	now.Add(30)
	var series report.Series
	a.get("series?from=-2h&step=1m", &series)
	equal(t, "within minutes", [2]any{series.Lines[0].Total, series.Lines[0].Points[60]}, [2]any{int64(1), int64(1)})
	a.get("series?from=-5h&step=1h", &series)
	equal(t, "by the hour", series.Lines[0].Points, []int64{0, 10, 0, 0, 1, 0})
	equal(t, "late", series.Coverage.Loss.Late, 2)
	var sys report.System
	a.get("system", &sys)
	equal(t, "late, duplicates", [2]int64{sys.Service.Late, sys.Service.Duplicates}, [2]int64{2, 6})
}

// loss: what sources lost since they started is told by range.
func loss(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	now.Store(3600)
	s, a := newService(t, open(), &now, rows.Bounds{})
	var batch []event.Event
	for n, source := range []string{"a/1", "b/1"} {
		source := &teller{source: source}
		for minute := range 60 {
			e := source.event(start.Add(time.Duration(minute) * time.Minute))
			e.Loss = &event.Loss{Dropped: uint64(minute * (n + 1)), Discarded: 5, Rollups: uint64(n), Failed: uint64(minute)}
			batch = append(batch, e)
		}
	}
	slices.Reverse(batch) // the newest come first
	consume(t, s, [][]event.Event{batch[:50], batch[50:]})
	var o report.Overview
	a.get("overview?from=-1h", &o)
	equal(t, "loss", o.Coverage.Loss, query.Loss{Dropped: 59 * 3, Discarded: 10, Rollups: 1, Failed: 118})
	a.get(fmt.Sprintf("overview?from=%d&to=%d", start.Add(30*time.Minute).Unix(), start.Add(40*time.Minute).Unix()), &o)
	equal(t, "loss in ten minutes", o.Coverage.Loss, query.Loss{Dropped: 30, Failed: 20})
}

// versions: a limit whose numbers changed is one limit with a history.
func versions(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	s, a := newService(t, open(), &now, rows.Bounds{})
	source := &teller{source: "n/1"}
	old, wide := randomRef(), randomRef()
	wide.Allowance, wide.Burst = 20, 20
	later := start.Add(10 * time.Minute)
	consume(t, s, [][]event.Event{{
		source.rollup(start, old, map[string]uint64{"allowed": 10, "refused": 90}), source.record(start, old, "k", "refused", 90),
		source.rollup(later, wide, map[string]uint64{"allowed": 60, "refused": 40}), source.record(later, wide, "k", "refused", 40),
	}})
	now.Store(1200)
	var detail report.RuleDetail
	a.get("rule?domain=d&rule=r", &detail)
	equal(t, "limits", len(detail.Limits), 1)
	l := detail.Limits[0]
	equal(t, "allowance, versions", [2]int64{l.Allowance, int64(l.Versions)}, [2]int64{20, 2})
	equal(t, "history", [2]int64{l.History[0].Counts["refused"], l.History[1].Counts["refused"]}, [2]int64{90, 40})
	equal(t, "when", [2]time.Time{l.History[0].From, l.History[1].From}, [2]time.Time{start, later})
	var list report.ClientList
	a.get("clients", &list)
	equal(t, "one client", len(list.Clients), 1)
	equal(t, "refused", list.Clients[0].Counts["refused"], 130)
}

// incidents: a pause of two steps is within one, a longer one between two.
func incidents(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	s, a := newService(t, open(), &now, rows.Bounds{})
	source := &teller{source: "n/1"}
	var batch []event.Event
	for _, minute := range []int{0, 2, 4, 7, 30, 58} {
		at := start.Add(time.Duration(minute) * time.Minute)
		batch = append(batch, source.rollup(at, randomRef(), map[string]uint64{"refused": 10, "allowed": 5}), source.record(at, randomRef(), fmt.Sprint("k", minute), "refused", 10))
	}
	batch = append(batch, source.rollup(start.Add(6*time.Minute), randomRef(), map[string]uint64{"allowed": 5}))
	consume(t, s, [][]event.Event{batch})
	now.Store(3600)
	var o report.Overview
	a.get("overview?from=-1h", &o)
	var got []string
	for _, in := range o.Incidents {
		got = append(got, fmt.Sprint(int(in.From.Sub(start).Minutes()), " to ", int(in.To.Sub(start).Minutes()), ": ", in.Refused, " of ", in.Keys, ", ", in.Open))
	}
	equal(t, "incidents", got, []string{"58 to 59: 10 of 1, true", "30 to 31: 10 of 1, false", "7 to 8: 10 of 1, false", "0 to 5: 30 of 3, false"})
}

// oddWords: what clients and rules are called does not matter.
func oddWords(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	s, a := newService(t, open(), &now, rows.Bounds{})
	source := &teller{source: strings.Repeat("node", 200) + "/1"}
	other := &teller{source: strings.Repeat("node", 200) + "/2"}
	p := randomRef()
	p.Domain, p.Rule, p.Limit = "", "a/b, 'c' = %d", "x\x00y"
	keys := []string{"\xff\xfe", "\xff\xfd", "nul\x00", "'; DROP TABLE clients; --", strings.Repeat("k", 1000), strings.Repeat("k", 1001), "ключ", "%", "=1+1"}
	var batch []event.Event
	for i, key := range keys {
		source := []*teller{source, other}[i%2]
		batch = append(batch, source.record(start, p, key, "refused", 1<<62))
	}
	batch = append(batch, source.rollup(start, p, map[string]uint64{"refused": 1<<64 - 1, strings.Repeat("odd", 100): 1}))
	negative := other.record(start, p, "negative", "refused", -5)
	negative.Record.RetryMS = -1
	negative.Record.Outcome = "unheard_of"
	zero := source.event(time.Time{})
	zero.Rollup = &event.Rollup{LimitRef: p}
	far := source.rollup(start.AddDate(5000, 0, 0), p, map[string]uint64{"refused": 1})
	consume(t, s, [][]event.Event{append(batch, negative, zero, far)})
	now.Store(60)
	var list report.ClientList
	a.get("clients?domain=", &list)
	equal(t, "clients", len(list.Clients), len(keys))
	var detail report.RuleDetail
	a.get("rule?rule=a%2Fb&domain=", &detail)
	equal(t, "another rule", len(detail.Limits), 0)
	equal(t, "sources and late", func() [2]int64 {
		var sys report.System
		a.get("system", &sys)
		return [2]int64{int64(len(sys.Sources)), sys.Service.Late}
	}(), [2]int64{2, 2})
}

// migratesAtOnce: several may make the tables at the same time.
func migratesAtOnce(t *testing.T, open func() rows.Database, _ *Traffic) {
	var life sync.WaitGroup
	for range 4 {
		life.Go(func() {
			if err := rows.Migrate(t.Context(), open()); err != nil {
				t.Error(err)
			}
		})
	}
	life.Wait()
}

// refusesNewer: a database that a newer version has changed is left alone.
func refusesNewer(t *testing.T, open func() rows.Database, _ *Traffic) {
	db := open()
	err := db.Update(t.Context(), func(tx rows.Tx) error {
		return tx.Each(`INSERT INTO weir_schema (version) VALUES ($1)`, [][]any{{int64(rows.SchemaVersion() + 1)}}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rows.Migrate(t.Context(), db); !errors.Is(err, rows.ErrNewer) || !strings.Contains(err.Error(), fmt.Sprint("schema ", rows.SchemaVersion()+1)) {
		t.Errorf("a newer database: %v", err)
	}
}

// hold is a source whose batches are held until it is told.
type hold struct{ taken chan error }

func (h *hold) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	source := &teller{source: "n/1"}
	h.taken <- take(ctx, []event.Event{source.rollup(start, randomRef(), map[string]uint64{"allowed": 1})})
	return nil
}

func (h *hold) Close() error { return nil }

// ends: a service that is told to end while the database is away leaves its events
// with the queue.
func ends(t *testing.T, open func() rows.Database, _ *Traffic) {
	unreachable := &never{Database: open(), tried: make(chan struct{}, 100)}
	var now atomic.Int64
	s, _ := newService(t, unreachable, &now, rows.Bounds{})
	ctx, cancel := context.WithCancel(t.Context())
	h := &hold{taken: make(chan error, 1)}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, h) }()
	// One of those who try wants to count, the other to forget.
	<-unreachable.tried
	<-unreachable.tried
	cancel()
	if err := <-h.taken; err == nil {
		t.Error("a batch that was not counted was taken")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// never is a database that takes nothing, and says so when nobody waits any more.
type never struct {
	rows.Database
	tried chan struct{}
}

func (n *never) Update(ctx context.Context, _ func(rows.Tx) error) error {
	n.tried <- struct{}{}
	<-ctx.Done()
	return errBroken
}

// questions: what is wrong with one is told.
func questions(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	now.Store(60)
	_, a := newService(t, open(), &now, rows.Bounds{})
	for path, want := range map[string]string{
		"overview?from=yesterday": "from", "overview?from=-0h": "from", "overview?from=-1x": "from", "overview?to=-2h&from=-1h": "from",
		"overview?from=2026-03-01T12:00:00": "from", "series?step=10s": "step", "series?step=1": "step", "series?step=1m&from=-48h": "step",
		"series?by=colour": "by", "overview?colour=red": "colour", "overview?top=0": "top", "overview?top=5000": "top", "overview?top=5&top=6": "top",
		"clients?sort=name": "sort", "clients?node=a": "node", "latency?outcome=refused": "outcome", "replay?new_allowance=0": "new_allowance", "replay?new_algorithm=magic": "new_algorithm",
		"replay?new_algorithm=concurrency": "new_algorithm", "replay?new_burst=-1": "new_burst", "replay?new_period_ms=1h": "new_period_ms", "overview?new_allowance=1": "new_allowance", "overview?node=a&key=k": "node", "overview?format=csv": "format", "client": "key", "client?key=a&key=b": "key",
		"overview?domain=" + strings.Repeat("x", 600): "domain", "overview?domain=" + strings.Repeat("x,", 60): "domain", "overview?mode=on": "mode",
		"overview?x=" + strings.Repeat("y", 9000): "query", "overview?a=%zz": "query", "rules/d/r?rule=r": "rule", "system?from=-1h": "from", "upstream?safe_rate=5": "safe_rate",
	} {
		rec := a.raw(path)
		if rec.Code != 400 || !strings.Contains(rec.Body.String(), `"parameter":"`+want+`"`) || rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("GET %.60s: %d %s", path, rec.Code, rec.Body)
		}
	}
	for _, path := range []string{"overview", "series", "series?by=node&from=-7d", "series?by=region", "replay", "replay?rule=no&new_allowance=5", "latency", "latency?region=a&step=1m", "top?by=agent", "rules?sort=share&mode=shadow", "rule?rule=no", "rules/a/b", "rates?rule=no", "rates",
		"clients?verdict=abusive&tier=gold&path=/a*", "client?key=no", "clients/no", "accuracy", "upstream", "upstream?region=a&node=b", "system", "filters", "overview?from=-3000d", "overview?from=0",
		"series?from=2026-03-01T11:00:00%2B02:00&to=now&step=1h", "series?from=-400d&step=30d"} {
		if rec := a.raw(path); rec.Code != 200 || strings.Contains(rec.Body.String(), "null") {
			t.Errorf("GET %s of an empty database: %d %s", path, rec.Code, rec.Body)
		}
	}
	for _, c := range []struct {
		method, path string
		want         int
	}{{"POST", "overview", 405}, {"DELETE", "overview", 405}, {"GET", "nothing", 404}, {"PUT", "rules/a/b", 405}, {"GET", "rules/a", 404}} {
		rec := a.exchange(httptest.NewRequest(c.method, "/v1/analytics/"+c.path, nil))
		if rec.Code != c.want || rec.Header().Get("Content-Type") != "application/problem+json" || c.want == 405 && rec.Header().Get("Allow") == "" {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, rec.Code, rec.Body, c.want)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	rec := a.exchange(httptest.NewRequestWithContext(gone, "GET", "/v1/analytics/overview", nil))
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" {
		t.Errorf("a database that does not answer: %d %s", rec.Code, rec.Body)
	}
}

// sample: of clients that were never limited one in four is told, and counts for
// four.
func sample(t *testing.T, open func() rows.Database, _ *Traffic) {
	tr := Make(t, 4)
	s := Serve(t, open(), tr)
	consume(t, s, Mixed(tr.Events, 1))
	a := &asked{t, s.Handler(), tr}
	var o report.Overview
	a.get("overview?"+a.span(), &o)
	equal(t, "counts", o.Totals.Counts, tally(tr.of(all), outcome))
	equal(t, "every", o.Coverage.Every, 4)
	limited := map[string]bool{}
	ds := a.ds("user")
	for _, d := range ds {
		if d.limits() {
			limited[d.Key] = true
		}
	}
	sampled := map[string]bool{}
	for _, e := range tr.Events {
		if r := e.Record; r != nil && r.Rule == "user" && r.Outcome == "allowed" && !r.Watched && !limited[r.Key] {
			sampled[r.Key] = true
		}
	}
	if len(sampled) == 0 {
		t.Fatal("no key is sampled")
	}
	var r report.Rates
	a.get("rates?rule=user&"+a.span(), &r)
	equal(t, "clients", [2]int64{r.Clients, r.Rows}, [2]int64{int64(len(limited) + 4*len(sampled)), int64(len(limited) + len(sampled))})
	var list report.ClientList
	a.get("clients?rule=user&"+a.span(), &list)
	for _, c := range list.Clients {
		equal(t, "refused", c.Counts["refused"], tally(tr.of(func(d *Decision) bool { return d.Key == c.Key && tr.Rules[d.Rule].Rule == "user" }), outcome)["refused"])
	}
}
