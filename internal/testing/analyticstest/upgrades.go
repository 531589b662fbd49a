package analyticstest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// Upgrades takes a database of version 5, with what nine days told, to this version, and
// holds all answers to those that its rows gave. What that version kept beside is gone.
func Upgrades(t *testing.T, open func() rows.Database) {
	seed := seeds.Of(t)
	d := &random{t: t, db: open(), rng: rand.New(rand.NewPCG(seed, 4)), now: start.Add(20 * 24 * time.Hour), every: 7}
	d.source.source = "n/1"
	many := 600
	if testing.Short() {
		many, d.every = 200, 29
	}
	s := d.service()
	d.write(s, many, 9*24*time.Hour)
	want, had := d.answers(s), countRows(t, d.db)
	gone := []string{"client_blocks", "client_columns", "labels"}
	if err := d.db.Update(t.Context(), func(tx rows.Tx) error {
		for _, table := range gone {
			for _, statement := range []string{`CREATE TABLE ` + table + ` (grain BIGINT NOT NULL PRIMARY KEY)`, `INSERT INTO ` + table + ` VALUES (1)`} {
				if err := tx.Each(statement, [][]any{nil}, nil); err != nil {
					return err
				}
			}
		}
		return tx.Each(`DELETE FROM weir_schema WHERE version > 5`, [][]any{nil}, nil)
	}); err != nil {
		t.Fatal(err)
	}

	d.db = open()
	if v := count(t, d.db, `SELECT MAX(version), 0 FROM weir_schema`); v != int64(rows.SchemaVersion()) {
		t.Fatalf("the database is of version %d after it was opened", v)
	}
	s = d.service()
	for path, got := range d.answers(s) {
		if got != want[path] {
			t.Fatalf("GET %s differs:\nnow    %.900s\nbefore %.900s", path, got, want[path])
		}
	}
	if have := countRows(t, d.db); have != had {
		t.Errorf("%v rows of clients by grain, there were %v", have, had)
	}
	for _, table := range gone {
		if d.db.View(t.Context(), func(tx rows.Tx) error { return tx.Each(`SELECT 1, 1 FROM `+table, [][]any{nil}, nil) }) == nil {
			t.Errorf("there is still a table %s", table)
		}
	}
	d.write(s, 40, 9*24*time.Hour)
}
