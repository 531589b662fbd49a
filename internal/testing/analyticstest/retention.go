package analyticstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Long reports whether the long forms of tests run.
func Long() bool { return os.Getenv("WEIR_SOAK") != "" }

// Size is how many rows of clients a database is filled with.
type Size struct {
	Limits, Clients, Hours, Minutes int64
}

// Documented is the size that docs/reference/analytics.md plans for: 2.16 million rows by hour.
var Documented = Size{Limits: 3, Clients: 1000, Hours: 720}

// Scaled is the documented size in the long form, and an eighth of it in the short one:
// fewer clients in the same time.
func Scaled() Size {
	s := Documented
	if !Long() {
		s.Clients /= 8
	}
	return s
}

// Fill puts rows into a database, all that is kept of clients until now, by statements
// that make many rows at once. Clients are client1, client2 and so on under the limits l
// of the rules rule1, rule2 and so on; each was refused as often as its number says, per
// row.
func Fill(t testing.TB, db rows.Database, now time.Time, size Size) {
	t.Helper()
	// One event makes each limit and a row to copy.
	s, err := analytics.New(db, analytics.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	source := &teller{source: "fill/1"}
	var events []event.Event
	for i := range size.Limits {
		p := FilledRef(i + 1)
		e := source.record(now, p, "template", "refused", 1)
		e.Record.About = &event.About{Address: "192.0.2.1", Method: "GET", Path: "/poll", Agent: "curl", Agents: 1, Paths: 1, Addresses: 1}
		e.Record.Decisive, e.Record.Source = 1, "store"
		events = append(events, e, source.rollup(now, p, map[string]uint64{"refused": 1}))
	}
	local := event.NewLocal(1)
	if err := errors.Join(local.Publish(t.Context(), events), local.Close(), s.Run(t.Context(), local)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := db.Update(ctx, func(tx rows.Tx) error { return fill(tx, db.Dialect().Kind, now.Unix(), size) }); err != nil {
		t.Fatal(err)
	}
}

// FilledRef is a limit that Fill makes rows of, from 1 on.
func FilledRef(i int64) event.LimitRef {
	p := randomRef()
	p.Domain, p.Rule = "api", fmt.Sprint("rule", i)
	return p
}

func fill(tx rows.Tx, kind string, now int64, size Size) error {
	columns := `SELECT name, 1 FROM pragma_table_info('clients')`
	if kind == "postgres" {
		columns = `SELECT CAST(column_name AS TEXT), 1 FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = 'clients' ORDER BY ordinal_position`
	}
	var names, values []string
	known := map[string]string{
		"grain": "$3", "at": "s.at", "limit_id": "c.limit_id", "client": "'client' || n.i", "refused": "n.i", "units": "n.i", "decisive": "n.i",
		"records": "n.i", "first_us": "s.at * 1000000", "last_us": "s.at * 1000000 + 59000000",
	}
	err := tx.Each(columns, [][]any{nil}, func(_ int, r rows.Row) error {
		names = append(names, r.Text(0))
		value := known[r.Text(0)]
		if value == "" {
			value = "c." + r.Text(0)
		}
		values = append(values, value)
		return nil
	})
	if err != nil {
		return err
	}
	list := strings.Join(names, ", ")
	for _, g := range []struct{ grain, seconds, rows int64 }{{2, 3600, size.Hours}, {1, 60, size.Minutes}} {
		if g.rows == 0 {
			continue
		}
		// The last row is of the time that has just ended.
		first := now - now%g.seconds - g.rows*g.seconds
		err := tx.Each(`INSERT INTO clients (`+list+`) WITH RECURSIVE s (at, k) AS (SELECT CAST($1 AS BIGINT), 1 UNION ALL SELECT at + $2, k + 1 FROM s WHERE k < `+fmt.Sprint(g.rows)+`),
			n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+fmt.Sprint(size.Clients)+`)
			SELECT `+strings.Join(values, ", ")+` FROM s, n, (SELECT * FROM clients WHERE grain = 2 AND client = 'template') AS c`,
			[][]any{{first, g.seconds, g.grain}}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// Used returns how many bytes a database takes.
func Used(t testing.TB, db rows.Database) int64 {
	t.Helper()
	n, err := db.Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// countRows counts the rows of clients by grain.
func countRows(t testing.TB, db rows.Database) (n [4]int64) {
	t.Helper()
	if err := db.View(t.Context(), func(tx rows.Tx) error {
		return tx.Each(`SELECT grain, COUNT(*) FROM clients GROUP BY grain`, [][]any{nil}, func(_ int, r rows.Row) error {
			n[r.Int(0)] = r.Int(1)
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// Retention holds a database to its bound in bytes: what is deleted is what is over the
// bound, the oldest, once, however often it is looked at, and while others write.
func Retention(t *testing.T, db rows.Database) {
	now := start.Add(40 * 24 * time.Hour)
	size := Size{Limits: 3, Clients: 40, Hours: 120, Minutes: 30}
	if Long() {
		size = Documented
		size.Minutes = 60
	}
	Fill(t, db, now, size)
	used := func() int64 { t.Helper(); return Used(t, db) }
	tidy := func(bound int64) {
		t.Helper()
		// Each time a service of its own, as after a restart.
		s, err := analytics.New(db, retained(func() time.Time { return now }, bound))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if err := s.Tidy(t.Context(), i == 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	total := func() int64 { n := countRows(t, db); return n[1] + n[2] + n[3] }
	whole, all := used(), total()
	tidy(whole + whole/100)
	if n := total(); n != all {
		t.Fatalf("%d of %d rows are left though they are within the bound", n, all)
	}
	// By what share the bound is crossed, slightly and heavily, and then again.
	for _, over := range []float64{0.001, 0.02, 0.1, 0.3, 0.5} {
		before, had := used(), total()
		bound := int64(float64(before) * (1 - over))
		tidy(bound)
		after, have := used(), total()
		gone := float64(had-have) / float64(had)
		t.Logf("%.1f %% over: %.1f %% of %d rows went, of %d bytes %d are left", 100*over, 100*gone, had, before, after)
		if after > bound {
			t.Errorf("%.1f %% over: %d bytes are left of a bound of %d", 100*over, after, bound)
		}
		// Rows by minute are smaller than the mean, and indexes give back pages when they
		// are empty: a third more than the share, and 2 %, is what that may come to.
		if most := over*4/3 + 0.02; gone > most {
			t.Errorf("%.1f %% over: %.1f %% of %d rows went, more than %.1f %%", 100*over, 100*gone, had, 100*most)
		}
		for range 2 {
			tidy(bound)
		}
		// A vacuum in between can move what is measured by a page.
		if n := total(); float64(have-n) > 0.001*float64(have) {
			t.Errorf("%.1f %% over: %d further rows went when it was looked at again", 100*over, have-n)
		}
	}
	if n := countRows(t, db); n[2] == 0 {
		t.Fatal("no rows by hour are left")
	} else if n[1] > 0 && n[2] < size.Limits*size.Clients*size.Hours {
		t.Errorf("rows by hour went before those by minute: %v", n)
	}
	oldest := int64(0)
	if err := db.View(t.Context(), func(tx rows.Tx) error {
		return tx.Each(`SELECT COUNT(DISTINCT at), MAX(at) - MIN(at) FROM clients WHERE grain = 2`, [][]any{nil}, func(_ int, r rows.Row) error {
			if hours := r.Int(1)/3600 + 1; r.Int(0) != hours {
				t.Errorf("%d hours are left of %d: others than the oldest went", r.Int(0), hours)
			}
			oldest = r.Int(0)
			return nil
		})
	}); err != nil || oldest == 0 {
		t.Fatalf("%d hours are left: %v", oldest, err)
	}
	retentionWhileWritten(t, db, now)
	retentionWithWriters(t, db, now)
}

// retained are the options of a service that forgets nothing but what is over a bound.
func retained(now func() time.Time, bound int64) analytics.Options {
	const month = 60 * 24 * time.Hour
	return analytics.Options{Now: now, Bounds: rows.Bounds{MaxBytes: bound, MaxClients: 2000,
		KeepMinutes: month, KeepHours: month, KeepDays: month, KeepClientMinutes: month, KeepClientHours: month}}
}

// retentionWhileWritten crosses the bound while another service writes.
func retentionWhileWritten(t *testing.T, db rows.Database, now time.Time) {
	var clock atomic.Int64
	clock.Store(now.Unix())
	writer, err := analytics.New(db, retained(func() time.Time { return time.Unix(clock.Load(), 0) }, -1))
	if err != nil {
		t.Fatal(err)
	}
	before, err := db.Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	had := countRows(t, db)
	bound := before * 9 / 10
	local := event.NewLocal(4)
	var life sync.WaitGroup
	life.Go(func() {
		if err := writer.Run(t.Context(), local); err != nil {
			t.Error(err)
		}
	})
	source := &teller{source: "writer/1"}
	s, err := analytics.New(db, retained(func() time.Time { return time.Unix(clock.Load(), 0) }, bound))
	if err != nil {
		t.Fatal(err)
	}
	const batches, each = 10, 50
	for i := range batches {
		var events []event.Event
		for k := range each {
			e := source.record(now, FilledRef(1), fmt.Sprintf("new%d-%d", i, k), "refused", 1000)
			events = append(events, e)
		}
		if err := local.Publish(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		if err := s.Tidy(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	life.Wait()
	if err := s.Tidy(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	after, err := db.Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have := countRows(t, db)
	t.Logf("while others wrote: rows by grain %v, then %v; of %d bytes %d are left", had, have, before, after)
	if after > bound {
		t.Errorf("while others wrote: %d bytes are left of a bound of %d", after, bound)
	}
	written := int64(batches * each)
	if gone := had[2] + written - have[2]; float64(gone) > 0.25*float64(had[2])+float64(written) {
		t.Errorf("while others wrote: %d of %d rows by hour went", gone, had[2]+written)
	}
}

// besides is a database whose rows others write while those over a bound are deleted:
// each time it is measured, almost as many have come as had gone since.
type besides struct {
	rows.Database
	t             testing.TB
	left, written int64
	had           int64
}

func (b *besides) Used(ctx context.Context) (int64, error) {
	n := countRows(b.t, b.Database)
	have := n[1] + n[2]
	if add := min(b.had-have-1, b.left); add > 0 {
		b.add(ctx, add)
		have += add
	}
	b.had = have
	return b.Database.Used(ctx)
}

// add writes rows of the newest hour, as large as the others.
func (b *besides) add(ctx context.Context, n int64) {
	b.t.Helper()
	var names, values []string
	err := b.Update(ctx, func(tx rows.Tx) error {
		columns := `SELECT name, 1 FROM pragma_table_info('clients')`
		if b.Dialect().Kind == "postgres" {
			columns = `SELECT CAST(column_name AS TEXT), 1 FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = 'clients' ORDER BY ordinal_position`
		}
		if err := tx.Each(columns, [][]any{nil}, func(_ int, r rows.Row) error {
			names = append(names, r.Text(0))
			value := "c." + r.Text(0)
			if r.Text(0) == "client" {
				value = "'beside' || (n.i + " + fmt.Sprint(b.written) + ")"
			}
			values = append(values, value)
			return nil
		}); err != nil {
			return err
		}
		return tx.Each(`INSERT INTO clients (`+strings.Join(names, ", ")+`) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+fmt.Sprint(n)+`)
			SELECT `+strings.Join(values, ", ")+` FROM n, (SELECT * FROM clients WHERE grain = 2 ORDER BY at DESC, limit_id, client DESC LIMIT 1) AS c`, [][]any{nil}, nil)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.left, b.written = b.left-n, b.written+n
}

// retentionWithWriters crosses the bound while others write almost as many rows as go:
// what a row frees is then not what the rows take less than before.
func retentionWithWriters(t *testing.T, db rows.Database, now time.Time) {
	const over = 0.1
	before, err := db.Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := countRows(t, db)
	had := n[1] + n[2]
	bound := int64(float64(before) * (1 - over))
	alongside := &besides{Database: db, t: t, left: had / 10}
	s, err := analytics.New(alongside, retained(func() time.Time { return now }, bound))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Tidy(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	after, err := db.Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n = countRows(t, db)
	gone := had + alongside.written - n[1] - n[2]
	t.Logf("beside writers of %d rows: %d of %d rows went; of %d bytes %d are left", alongside.written, gone, had, before, after)
	if alongside.written == 0 {
		t.Error("nobody wrote beside")
	}
	if after > bound {
		t.Errorf("beside writers: %d bytes are left of a bound of %d", after, bound)
	}
	if most := alongside.written + int64(float64(had)*(over*4/3+0.02)); gone > most {
		t.Errorf("beside writers: %d of %d rows went, more than %d", gone, had, most)
	}
}
