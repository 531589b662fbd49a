package retention

import (
	"context"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

const (
	// trimRow is how many bytes a row is taken for until it is measured: more than most
	// have, so that too few are deleted first, and not too many.
	trimRow = 2 << 10
	// minMeasured is how many rows must have gone for what they freed to be the measure.
	minMeasured = 64
	// maxTrims bounds the rounds of one call: what is over the bound then is the next's.
	maxTrims = 1000
)

// trims are the kinds of rows that are deleted where all rows take too much, in this
// order. The oldest go first, and of one time those of the least interest.
var trims = [...]struct {
	name, oldest, statement string
	args                    []any
}{
	{"clients by minute", `SELECT MIN(at) FROM clients WHERE grain = 1`, trimClients, []any{int64(rows.Minute)}},
	{"arrivals", `SELECT MIN(at) FROM arrivals`, rows.ArrivalsTable.DeleteStatement("at = $1 ORDER BY id LIMIT $2"), nil},
	{"words", `SELECT MIN(at) FROM words`, rows.WordsTable.DeleteStatement("at = $1 ORDER BY refused + shadow + delayed, allowed LIMIT $2"), nil},
	{"clients by hour", `SELECT MIN(at) FROM clients WHERE grain = 2`, trimClients, []any{int64(rows.Hour)}},
}

var trimClients = rows.ClientsTable.DeleteStatement("grain = $1 AND at = $2 ORDER BY refused + delayed + shadow, units LIMIT $3")

// trimToSize deletes rows while they take more than MaxBytes, and as few as that takes: it
// measures again and again, and deletes no more rows at a time than are over the bound by
// what others freed.
func (s *Sweeper) trimToSize(ctx context.Context) error {
	if s.bounds.MaxBytes < 0 {
		return nil
	}
	var size rowSize
	least := int64(1) // rows at a time
	used, err := s.db.Used(ctx)
	for range maxTrims {
		if err != nil || used <= s.bounds.MaxBytes {
			return err
		}
		// Half of what is over, since what is measured of some is not what others free.
		gone, whole, err := s.trimRows(ctx, max((used-s.bounds.MaxBytes)/size.estimatedBytes()/2, least))
		if err != nil {
			return err
		}
		if gone == 0 {
			s.log.Warn("database above its maximum size; no rows can be pruned", "bytes", used, "bound", s.bounds.MaxBytes)
			return nil
		}
		before := used
		if used, err = s.db.Used(ctx); err != nil {
			return err
		}
		// A few rows say nothing of others: pages become empty one at a time.
		if before <= used {
			least = min(2*least, minMeasured)
		} else {
			least = 1
		}
		switch {
		case !whole: // the last ones of a kind
			size = rowSize{}
		case gone >= minMeasured:
			size.measured((before - used) / gone)
		}
	}
	return nil
}

// rowSize is how many bytes a row of a kind frees, as far as is known. What others write
// meanwhile makes a measure too small, so that the largest one counts. The zero value knows
// of none.
type rowSize struct{ largest, now int64 }

// estimatedBytes returns it.
func (r *rowSize) estimatedBytes() int64 {
	if r.now == 0 {
		return trimRow
	}
	return r.now
}

// measured takes in a measure. It makes the size smaller by half at most at a time, and
// never less than half of the largest measure.
func (r *rowSize) measured(n int64) {
	r.largest = max(r.largest, n)
	r.now = max(n, r.estimatedBytes()/2, r.largest/2, 1)
}

// trimRows deletes n rows, of the first kind that has any, and returns how many those
// were, and whether there were as many.
func (s *Sweeper) trimRows(ctx context.Context, n int64) (gone int64, whole bool, err error) {
	kind := -1
	for gone < n {
		of, oldest, err := s.oldestTrimmed(ctx)
		if err != nil {
			return gone, false, err
		}
		if kind < 0 {
			kind = of
		}
		if of < 0 || of != kind {
			return gone, false, nil // its rows may be of another size
		}
		some, err := s.deleteSome(ctx, trims[kind].statement, append(append([]any{}, trims[kind].args...), oldest, min(n-gone, step)))
		if err != nil {
			return gone, false, err
		}
		gone += some
	}
	return gone, true, nil
}

// oldestTrimmed returns the first kind that has rows, and their oldest time; -1 if none
// has any.
func (s *Sweeper) oldestTrimmed(ctx context.Context) (kind int, oldest int64, err error) {
	kind = -1
	err = rows.ViewRows(ctx, s.db, func(in *rows.Statements) {
		for i, t := range trims {
			if in.ReadRows(func(r rows.Row) { oldest = r.Int(0) }, t.oldest); oldest > 0 {
				kind = i
				return
			}
		}
	})
	return kind, oldest, err
}
