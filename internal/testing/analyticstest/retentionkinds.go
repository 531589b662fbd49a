package analyticstest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// RetentionOfKinds is Retention where rows of another kind than clients take the room, of
// any size: as much goes as is over the bound, of that kind, the oldest, and rows that the
// bound does not touch stay.
func RetentionOfKinds(t *testing.T, open func(name string) rows.Database) {
	many := 2000
	if Long() {
		many = 40_000
	}
	now := start.Add(40 * 24 * time.Hour)
	for _, kind := range []struct {
		name, insert, size string
		row                func(r *rand.Rand, i int, at int64) []any
		rows               int
	}{
		{"arrivals", `INSERT INTO arrivals (at, limit_id, client, outcome, every, cut, n, data) VALUES ($1, $2, $3, $4, 1, 0, 1, $5)`,
			`SELECT COALESCE(CAST(SUM(LENGTH(data)) AS BIGINT), 0), COALESCE(MIN(at), 0) FROM arrivals`,
			func(r *rand.Rand, i int, at int64) []any {
				return []any{at * 1e6, int64(i%3 + 1), fmt.Sprint("client", i%50), "refused", randomBytes(r, 100+r.IntN(4000))}
			}, many},
		{"words", `INSERT INTO words (at, limit_id, kind, word, allowed, refused, shadow, delayed) VALUES ($1, $2, 'path', $3, $4, 1, 0, 0)`,
			`SELECT COALESCE(CAST(SUM(LENGTH(word)) AS BIGINT), 0), COALESCE(MIN(at), 0) FROM words`,
			func(r *rand.Rand, i int, at int64) []any {
				return []any{at / 3600 * 3600, int64(i%3 + 1), fmt.Sprintf("/%d/%s", i, strings.Repeat("x", r.IntN(300))), int64(i)}
			}, 5 * many},
	} {
		t.Run(kind.name, func(t *testing.T) {
			db, r := open(kind.name), rand.New(rand.NewPCG(seeds.Of(t), 5))
			clock := func() time.Time { return now }
			if _, err := analytics.New(db, retained(clock, -1)); err != nil {
				t.Fatal(err)
			}
			args := make([][]any, kind.rows)
			for i := range args {
				args[i] = kind.row(r, i, now.Unix()-int64(kind.rows-i)*600*2000/int64(kind.rows))
			}
			if err := db.Update(t.Context(), func(tx rows.Tx) error { return tx.Each(kind.insert, args, nil) }); err != nil {
				t.Fatal(err)
			}
			measure := func() (used, bytes, oldest int64) {
				t.Helper()
				used, err := db.Used(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := db.View(t.Context(), func(tx rows.Tx) error {
					return tx.Each(kind.size, [][]any{nil}, func(_ int, r rows.Row) error { bytes, oldest = r.Int(0), r.Int(1); return nil })
				}); err != nil {
					t.Fatal(err)
				}
				return used, bytes, oldest
			}
			for _, over := range []float64{-0.01, 0.005, 0.03, 0.1, 0.4} {
				before, had, first := measure()
				bound := int64(float64(before) * (1 - over))
				s, err := analytics.New(db, retained(clock, bound))
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := s.Tidy(t.Context(), false); err != nil {
						t.Fatal(err)
					}
				}
				after, have, last := measure()
				gone := float64(had-have) / float64(had)
				t.Logf("%.1f %% over: %.1f %% of the bytes went, of %d %d are left", 100*over, 100*gone, before, after)
				switch most := over*4/3 + 0.02; {
				case over < 0 && (have != had || last != first):
					t.Errorf("%d of %d bytes are left though they are within the bound", have, had)
				case over > 0 && after > bound:
					t.Errorf("%.1f %% over: %d bytes are left of a bound of %d", 100*over, after, bound)
				case over > 0 && gone > most:
					t.Errorf("%.1f %% over: %.1f %% of the bytes went, more than %.1f %%", 100*over, 100*gone, 100*most)
				case over > 0 && last < first:
					t.Errorf("the oldest is of %d, it was of %d", last, first)
				}
			}
		})
	}
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
