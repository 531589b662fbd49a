package analyticstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// Refused holds a service to going on where its database refuses some events: they are
// set aside and counted, and all others are counted, also when they are handed out again.
func Refused(t *testing.T, db rows.Database) {
	r := rand.New(rand.NewPCG(seeds.Of(t), 0))
	now := func() time.Time { return start }
	s, err := analytics.New(db, analytics.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	full := randomRef()
	full.Rule = "full"
	source := &teller{source: "node/1"}
	hand := func(batch []event.Event) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		local := event.NewLocal(1)
		if err := local.Publish(ctx, batch); err != nil {
			t.Fatal(err)
		}
		if err := local.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(ctx, local); err != nil || ctx.Err() != nil {
			t.Fatalf("a batch with events that the database refuses is not counted: %v, %v; %s", err, ctx.Err(), s.Info().Failing)
		}
	}
	hand([]event.Event{source.rollup(start, full, map[string]uint64{"refused": 1})})
	events, rejected := int64(1), int64(0)

	// What a database takes no more: a client against a constraint, and in PostgreSQL,
	// which says so, a number that a row has no room for.
	overflows := db.Dialect().Kind == "postgres"
	spoil := []string{`CREATE TRIGGER refuses BEFORE INSERT ON clients WHEN NEW.client LIKE 'refused%' BEGIN SELECT RAISE(ABORT, 'no such client'); END`}
	if overflows {
		spoil = []string{`ALTER TABLE clients ADD CONSTRAINT refuses CHECK (client NOT LIKE 'refused%')`, `UPDATE rollups SET n = 9223372036854775807`}
	}
	if err := db.Update(t.Context(), func(tx rows.Tx) error {
		for _, statement := range spoil {
			if err := tx.Each(statement, [][]any{nil}, nil); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	// Words that no database takes as they are, and figures that no column holds.
	odd := []string{"", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", strings.Repeat("w", 100_000), strings.Repeat("\xff\x00", 5000), "\u202e", "'\"\\"}
	word := func(or string) string {
		if r.IntN(4) > 0 {
			return or
		}
		return odd[r.IntN(len(odd))]
	}
	figures := []int64{-1 << 63, -1, 0, 1, 1<<63 - 1}
	rounds := 6
	if Long() {
		rounds = 60
	}
	for range rounds {
		var batch []event.Event
		for i := range 1 + r.IntN(60) {
			switch r.IntN(8) {
			case 0:
				batch = append(batch, source.record(start, randomRef(), fmt.Sprint("refused", i), "refused", 1))
				rejected++
				continue
			case 1:
				if overflows {
					batch = append(batch, source.rollup(start, full, map[string]uint64{"refused": 1 + r.Uint64N(1<<62)}))
					rejected++
					continue
				}
			case 2:
				p := randomRef()
				p.Domain, p.Rule, p.Limit, p.Algorithm = word(p.Domain), word("odd"), word(p.Limit), word(p.Algorithm)
				p.Allowance, p.PeriodMS, p.Burst = figures[r.IntN(len(figures))], figures[r.IntN(len(figures))], figures[r.IntN(len(figures))]
				e := source.rollup(start, p, map[string]uint64{word("allowed"): r.Uint64()})
				e.Region = word("region")
				batch = append(batch, e)
				events++
				continue
			case 3:
				p := randomRef()
				p.Rule = word(p.Rule)
				e := source.record(start, p, word("key"), word("refused"), figures[r.IntN(len(figures))])
				e.Record.RetryMS, e.Record.Source = figures[r.IntN(len(figures))], word("store")
				e.Record.About = &event.About{Address: word("192.0.2.1"), Method: word("GET"), Path: word("/"), Agent: word("curl"), Agents: 1, Paths: 1, Addresses: 1}
				batch = append(batch, e)
				events++
				continue
			}
			batch = append(batch, source.record(start, randomRef(), fmt.Sprint("client", i), "refused", 1))
			events++
		}
		hand(batch)
		info := s.Info()
		if info.Events != events || info.Rejected != rejected || info.Duplicates != 0 {
			t.Fatalf("%d of %d events were counted, %d of %d set aside, %d taken twice", info.Events, events, info.Rejected, rejected, info.Duplicates)
		}
	}
	if rejected == 0 {
		t.Fatal("no event was to be refused")
	}
	t.Logf("%d events were counted, %d set aside", events, rejected)
}
