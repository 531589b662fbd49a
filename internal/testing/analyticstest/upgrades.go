package analyticstest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// Upgrades takes a database of version 4, with what nine days told, to this version, and
// holds all answers to those that its rows gave: when it was opened, when its blocks are
// written, and after late events.
func Upgrades(t *testing.T, open func() analytics.Database) {
	seed := seeds.Of(t)
	d := &differential{t: t, db: open(), rng: rand.New(rand.NewPCG(seed, 4)), now: start.Add(20 * 24 * time.Hour), every: 7}
	d.source.source = "n/1"
	many := 600
	if testing.Short() {
		many, d.every = 200, 29
	}
	all := retained(nil, -1)
	d.write(d.service(all), many, 9*24*time.Hour)
	if err := d.db.Update(t.Context(), func(tx analytics.Tx) error {
		for _, statement := range []string{`DELETE FROM client_blocks`, `DELETE FROM client_columns`} {
			if err := tx.Each(statement, [][]any{nil}, nil); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := d.answers(d.service(all))
	had := rows(t, d.db)
	// Version 5 added two tables, and changed none.
	if err := d.db.Update(t.Context(), func(tx analytics.Tx) error {
		for _, statement := range []string{`DROP TABLE client_blocks`, `DROP TABLE client_columns`, `DELETE FROM weir_schema WHERE version > 4`} {
			if err := tx.Each(statement, [][]any{nil}, nil); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	d.db = open()
	s := d.service(all)
	if v := count(t, d.db, `SELECT MAX(version), 0 FROM weir_schema`); v != int64(analytics.SchemaVersion()) {
		t.Fatalf("the database is of version %d after it was opened", v)
	}
	same := func(when string) {
		t.Helper()
		for path, got := range d.answers(s) {
			if got != want[path] {
				t.Fatalf("%s: GET %s differs:\nnow    %.900s\nbefore %.900s", when, path, got, want[path])
			}
		}
		if have := rows(t, d.db); have != had {
			t.Errorf("%s: %v rows of clients by grain, there were %v", when, have, had)
		}
	}
	same("when it was opened")
	if n := count(t, d.db, `SELECT COUNT(*), 0 FROM client_blocks`); n != 0 {
		t.Errorf("%d blocks before any was written", n)
	}
	d.tidy(s)
	if n := count(t, d.db, `SELECT COUNT(*), 0 FROM client_blocks WHERE state = 1 AND limit_id > 0`); n == 0 {
		t.Error("no block was written of the old rows")
	}
	same("with blocks")
	d.write(s, 40, 9*24*time.Hour)
	d.same("after late events", s)
}
