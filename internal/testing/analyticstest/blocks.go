package analyticstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// filters are what questions are narrowed by.
var filters = []string{"", "&tier=gold", "&path=/a*", "&agent=curl", "&key=k3", "&mode=enforced", "&outcome=refused"}

// Blocks holds answers that are read from blocks of clients to those that are read from
// the rows: after blocks were written, after late events, after rows were merged and
// deleted, and while others write.
func Blocks(t *testing.T, open func(seed uint64) analytics.Database) {
	runs := 1
	if Long() {
		runs = 4
	}
	seed := seeds.Of(t)
	for i := range uint64(runs) {
		d := &differential{t: t, db: open(seed + i), rng: rand.New(rand.NewPCG(seed+i, 1)), now: start.Add(20 * 24 * time.Hour)}
		d.run()
	}
}

type differential struct {
	t      *testing.T
	db     analytics.Database
	rng    *rand.Rand
	now    time.Time
	source teller
	// every: one question in so many is asked, but in the long form, and others in each
	// round.
	every, round int
}

func (d *differential) service(opt analytics.Options) *analytics.Service {
	d.t.Helper()
	opt.Now = func() time.Time { return d.now }
	s, err := analytics.New(d.db, opt)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func (d *differential) run() {
	d.source.source = "n/1"
	all := retained(nil, -1)
	s := d.service(all)
	many := 400
	d.every = 11
	if testing.Short() {
		many, d.every = 200, 23
	}
	d.write(s, many, 9*24*time.Hour)
	d.tidy(s)
	d.same("after they were written", s)
	d.tidy(s)
	d.write(s, 60, 9*24*time.Hour)
	d.same("after late events", s)
	d.tidy(s)
	// Rows are merged and deleted, by number, by age and by bytes.
	subset := all
	subset.MaxClients = 10
	merger := d.service(subset)
	d.write(merger, 300, 7*time.Hour)
	d.tidy(s)
	if err := merger.Tidy(d.t.Context(), false); err != nil {
		d.t.Fatal(err)
	}
	d.same("after clients were merged", s)
	d.tidy(s)
	old := all
	old.KeepClientMinutes, old.KeepClientHours = 20*time.Hour+7*time.Minute, 5*24*time.Hour+7*time.Minute
	d.tidy(d.service(old))
	d.same("after old ones were deleted", s)
	d.tidy(s)
	used, err := d.db.Used(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	// Blocks make room before rows do, and are written again when there is some.
	full := all
	full.MaxBytes = used - 1
	d.tidy(d.service(full))
	d.tidy(s)
	d.same("after blocks had made room", s)
	d.tidy(s)
	for range 3 {
		used = used * 8 / 10
		full.MaxBytes = used
		d.tidy(d.service(full))
		d.same("after rows over the bound were deleted", s)
	}
	// While others write and delete.
	var life sync.WaitGroup
	life.Go(func() { d.write(d.service(all), 400, 3*24*time.Hour) })
	tidier := d.service(all)
	for range 5 {
		d.tidy(tidier)
	}
	life.Wait()
	d.same("after others wrote meanwhile", s)
}

func (d *differential) tidy(s *analytics.Service) {
	d.t.Helper()
	if err := s.Tidy(d.t.Context(), true); err != nil {
		d.t.Fatal(err)
	}
}

// write counts random records and roll-ups of the time before now.
func (d *differential) write(s *analytics.Service, n int, ago time.Duration) {
	local := event.NewLocal(n)
	outcomes := []string{"allowed", "refused", "refused", "soft", "borrowed", "delayed", "shadow_refused", "estimated", "degraded", "new"}
	pick := func(words ...string) string { return words[d.rng.IntN(len(words))] }
	for range n {
		at := d.now.Add(-time.Duration(d.rng.Int64N(int64(ago))))
		p := FilledRef(d.rng.Int64N(3) + 1)
		p.PeriodMS = []int64{1000, 60_000, 7_200_000}[d.rng.IntN(3)]
		var events []event.Event
		for range d.rng.IntN(4) + 1 {
			e := d.source.record(at, p, fmt.Sprint("k", d.rng.IntN(40)), pick(outcomes...), d.rng.Int64N(20))
			r := e.Record
			r.Cost, r.Early, r.Decisive, r.Least = d.rng.Int64N(1<<d.rng.IntN(40)), d.rng.Int64N(3), d.rng.Int64N(2), d.rng.Int64N(100)
			r.Every, r.Watched, r.Unhashed, r.Merged = d.rng.Int64N(3), d.rng.IntN(2) == 0, d.rng.IntN(2) == 0, d.rng.IntN(20) == 0
			r.RetryMS, r.DelayMS, r.Degraded = d.rng.Int64N(3000)-1, d.rng.Int64N(100), d.rng.IntN(5) == 0
			if d.rng.IntN(3) > 0 {
				r.About = &event.About{
					Address: pick("", "192.0.2.1", "192.0.2.2"), Path: pick("", "/a", "/ab", "/b", "/Ä"), User: pick("", "ann", "bob"), Tier: pick("", "gold", "free"),
					Agent: pick("", "curl", "ünï"), Method: "GET", Network: pick("", "192.0.2.0/24"), Host: "h", Users: d.rng.Int64N(3), Paths: d.rng.Int64N(9),
				}
			}
			if d.rng.IntN(3) == 0 {
				r.Answers = &event.Answers{Count: 3, OK: 1, Denied: 1, ServerError: 1, TotalMS: d.rng.Int64N(900), LongestMS: d.rng.Int64N(900)}
			}
			events = append(events, e)
		}
		events = append(events, d.source.rollup(at, p, map[string]uint64{pick("allowed", "refused", "shadow_refused"): d.rng.Uint64N(50)}))
		if err := local.Publish(d.t.Context(), events); err != nil {
			d.t.Error(err)
			return
		}
	}
	if err := errors.Join(local.Close(), s.Run(d.t.Context(), local)); err != nil {
		d.t.Error(err)
	}
}

// same compares all answers with those that are made of rows alone.
func (d *differential) same(when string, s *analytics.Service) {
	d.t.Helper()
	blocks, columns := count(d.t, d.db, `SELECT COUNT(*), 0 FROM client_blocks WHERE state = 1 AND limit_id > 0`), count(d.t, d.db, `SELECT COUNT(*), 0 FROM client_columns`)
	d.t.Logf("%s: %d blocks are whole, %d columns", when, blocks, columns)
	if blocks == 0 && !strings.Contains(when, "bound") {
		d.t.Errorf("%s: no block is whole", when)
	}
	d.round++
	d.counted(when)
	with := d.answers(s)
	err := d.db.Update(d.t.Context(), func(tx analytics.Tx) error {
		return errors.Join(tx.Each(`DELETE FROM client_blocks WHERE state <> 2`, [][]any{nil}, nil), tx.Each(`DELETE FROM client_columns`, [][]any{nil}, nil))
	})
	if err != nil {
		d.t.Fatal(err)
	}
	for path, want := range d.answers(s) {
		if with[path] != want {
			at := 0
			for at < min(len(want), len(with[path])) && want[at] == with[path][at] {
				at++
			}
			from := max(at-200, 0)
			d.t.Errorf("%s: GET %s differs:\nof blocks %.600s\nof rows   %.600s", when, path, with[path][from:], want[from:])
			return
		}
	}
}

// counted compares how many rows of clients the answer about the service says with those
// that there are.
func (d *differential) counted(when string) {
	d.t.Helper()
	s := d.service(retained(nil, -1)) // counts of another may be of earlier
	var sys analytics.System
	(&asked{d.t, s.Handler(), nil}).get("system", &sys)
	seen := 0
	for _, table := range sys.Tables {
		if table.Name != "clients" {
			continue
		}
		seen++
		of := ` FROM clients WHERE grain = ` + map[string]string{"minute": "1", "hour": "2"}[table.Grain]
		rows, oldest := count(d.t, d.db, `SELECT COUNT(*), 0`+of), count(d.t, d.db, `SELECT COALESCE(MIN(at), 0), 0`+of)
		if table.Rows != rows || (table.Oldest != nil) != (rows > 0) || rows > 0 && table.Oldest.Unix() != oldest {
			d.t.Errorf("%s: %+v, there are %d since %d", when, table, rows, oldest)
		}
	}
	if seen != 2 {
		d.t.Errorf("%s: %d kinds of clients in %+v", when, seen, sys.Tables)
	}
}

// answers asks every question of every range with every filter.
func (d *differential) answers(s *analytics.Service) map[string]string {
	d.t.Helper()
	out := map[string]string{}
	h, asked := s.Handler(), 0
	sorts := []string{"clients?sort=decisions&top=7", "clients?sort=early", "clients?sort=last&top=3", "clients?sort=units"}
	for _, q := range append(slices.Clone(Questions), sorts...) {
		if !strings.Contains(q, "?") {
			continue
		}
		for _, from := range []string{"-50m", "-3h", "-23h", "-7d", "-30d"} {
			for _, filter := range filters {
				if asked++; !Long() && (asked+d.round)%d.every != 0 { // each filter with some of the questions
					continue
				}
				if strings.Contains(q, "key=") && strings.Contains(filter, "key=") {
					continue
				}
				path := "/v1/analytics/" + q + "&from=" + from + filter
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
				if rec.Code != 200 && rec.Code != 400 { // not all take all filters
					d.t.Fatalf("GET %s: %d %s", path, rec.Code, rec.Body)
				}
				out[path] = rec.Body.String()
			}
		}
	}
	return out
}

func count(t testing.TB, db analytics.Database, query string) (n int64) {
	t.Helper()
	if err := db.View(t.Context(), func(tx analytics.Tx) error {
		return tx.Each(query, [][]any{nil}, func(_ int, r analytics.Row) error { n = r.Int(0); return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
