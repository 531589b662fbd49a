package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir/analytics"
)

const (
	// maxSampledPages is how many pages of a table are read to find out how much of it is
	// alive. All of a smaller one are.
	maxSampledPages = 2048
	// rowOverhead is what a row takes beside its columns, in bytes: a header of 24, a
	// pointer of 4, and the mean of what aligns it to 8.
	rowOverhead = 32
)

// table is a table of analytics as the server has it.
type table struct {
	name string
	// pages are those of the table itself, rows the bytes of it and of values that it
	// keeps elsewhere, all those and its indexes.
	pages, rows, all int64
	// size is an expression for the bytes of a row.
	size string
}

// Used implements analytics.Database. It returns what the live rows take, with their
// share of the indexes. A row that is deleted takes nothing from then on, though its
// file does not shrink: its place is used again after the next VACUUM, which autovacuum
// does.
func (db *DB) Used(ctx context.Context) (used int64, err error) {
	err = db.View(ctx, func(t analytics.Tx) error {
		used = 0
		tables, err := tablesOf(t)
		if err != nil {
			return err
		}
		for _, table := range tables {
			n, err := table.live(t)
			if err != nil {
				return err
			}
			used += n
		}
		return nil
	})
	return used, err
}

// tablesOf returns the tables that hold rows.
func tablesOf(t analytics.Tx) ([]*table, error) {
	var out []*table
	by := map[string]*table{}
	const sizes = `SELECT CAST(c.relname AS TEXT), pg_relation_size(c.oid) / CAST(current_setting('block_size') AS BIGINT),
			pg_relation_size(c.oid) + COALESCE(pg_relation_size(NULLIF(c.reltoastrelid, 0)), 0),
			(SELECT CAST(COALESCE(SUM(pg_relation_size(i.indexrelid)), 0) AS BIGINT) FROM pg_index i WHERE i.indrelid IN (c.oid, c.reltoastrelid))
		FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE s.nspname = current_schema() AND c.relkind = 'r' AND c.relname IN (` + tableNames + `) ORDER BY c.relname`
	err := t.Each(sizes, [][]any{nil}, func(_ int, r analytics.Row) error {
		x := &table{name: r.Text(0), pages: r.Int(1), rows: r.Int(2), all: r.Int(2) + r.Int(3), size: strconv.Itoa(rowOverhead)}
		by[x.name] = x
		out = append(out, x)
		return nil
	})
	if err != nil {
		return nil, err
	}
	const columns = `SELECT CAST(c.relname AS TEXT), CAST(a.attname AS TEXT), CAST(a.attlen AS BIGINT)
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE s.nspname = current_schema() AND c.relkind = 'r' AND c.relname IN (` + tableNames + `) AND a.attnum > 0 AND NOT a.attisdropped`
	err = t.Each(columns, [][]any{nil}, func(_ int, r analytics.Row) error {
		x := by[r.Text(0)]
		if x == nil {
			return nil // it was made in the meantime
		}
		if length := r.Int(2); length > 0 {
			x.size += " + " + strconv.FormatInt(length, 10)
		} else {
			x.size += " + COALESCE(pg_column_size(" + r.Text(1) + "), 0)"
		}
		return nil
	})
	return out, err
}

// tableNames are the tables of analytics, for a statement.
const tableNames = `'limits', 'sources', 'seen', 'rollups', 'requests', 'latencies', 'answered', 'clients', 'client_blocks', 'client_columns', 'sketches', 'words', 'arrivals', 'losses', 'late', 'labels'`

// live returns what the rows of a table take that are not deleted: as much of its size
// as they fill of its pages. Of a large table some pages are looked at, always the same
// ones, so that what is measured changes by what was done and not by chance.
func (x *table) live(t analytics.Tx) (n int64, err error) {
	if x.pages == 0 {
		return 0, nil
	}
	percent := min(100*float64(maxSampledPages)/float64(x.pages), 100)
	rows := x.name
	if percent < 100 {
		rows += fmt.Sprintf(" TABLESAMPLE SYSTEM (%s) REPEATABLE (1)", strconv.FormatFloat(percent, 'f', 6, 64))
	}
	err = t.Each("SELECT CAST(COALESCE(SUM("+x.size+"), 0) AS BIGINT) FROM "+rows, [][]any{nil}, func(_ int, r analytics.Row) error {
		full := min(float64(r.Int(0))*100/percent/float64(x.rows), 1)
		n = int64(full * float64(x.all))
		return nil
	})
	return n, err
}
