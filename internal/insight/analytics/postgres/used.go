package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

const (
	// maxSampledPages is how many pages of a table are read to find out how much of it is
	// alive. All of a smaller one are.
	maxSampledPages = 2048
	// rowOverhead is what a row takes beside its columns, in bytes: a header of 24, a
	// pointer of 4, and the mean of what aligns it to 8.
	rowOverhead = 32
	// entryOverhead is the same of an entry of an index, with a header of 8.
	entryOverhead = 16
	// indexFill is how full the pages of an index are, in percent, once entries came in
	// any order.
	indexFill = 70
)

// table is a table of analytics as the server has it.
type table struct {
	name string
	// pages are those of the table itself.
	pages int64
	// row and entries are expressions for the bytes of a row and of its entries in
	// indexes.
	row, entries string
}

// Used implements rows.Database. It returns what the live rows take, with their
// entries in indexes. Nothing else changes it: a row that is deleted takes nothing from
// then on, though files do not shrink before a VACUUM, which autovacuum does, and indexes
// not even then.
func (db *DB) Used(ctx context.Context) (used int64, err error) {
	err = db.View(ctx, func(t rows.Tx) error {
		used = 0
		tables, err := tablesOf(t)
		if err != nil {
			return err
		}
		for _, table := range tables {
			n, err := table.liveBytes(t)
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
func tablesOf(t rows.Tx) ([]*table, error) {
	var out []*table
	by := map[string]*table{}
	const sizes = `SELECT CAST(c.relname AS TEXT), pg_relation_size(c.oid) / CAST(current_setting('block_size') AS BIGINT)
		FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE s.nspname = current_schema() AND c.relkind = 'r' AND c.relname IN (` + tableNames + `) ORDER BY c.relname`
	err := t.Each(sizes, [][]any{nil}, func(_ int, r rows.Row) error {
		x := &table{name: r.Text(0), pages: r.Int(1), row: strconv.Itoa(rowOverhead), entries: "0"}
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
	err = t.Each(columns, [][]any{nil}, func(_ int, r rows.Row) error {
		if x := by[r.Text(0)]; x != nil { // or it was made in the meantime
			x.row += " + " + bytesOf(r.Text(1), r.Int(2))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	const keys = `SELECT CAST(c.relname AS TEXT), CAST(a.attname AS TEXT), CAST(a.attlen AS BIGINT), CAST(k.attnum AS BIGINT)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace s ON s.oid = c.relnamespace
		JOIN pg_attribute k ON k.attrelid = i.indexrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[k.attnum - 1]
		WHERE s.nspname = current_schema() AND c.relkind = 'r' AND c.relname IN (` + tableNames + `) ORDER BY i.indexrelid, k.attnum`
	err = t.Each(keys, [][]any{nil}, func(_ int, r rows.Row) error {
		x := by[r.Text(0)]
		if x == nil {
			return nil
		}
		if r.Int(3) == 1 {
			x.entries += " + " + strconv.Itoa(entryOverhead)
		}
		x.entries += " + " + bytesOf(r.Text(1), r.Int(2))
		return nil
	})
	return out, err
}

// bytesOf returns an expression for the bytes of a column, whose type has a length if it
// is positive.
func bytesOf(column string, length int64) string {
	if length > 0 {
		return strconv.FormatInt(length, 10)
	}
	return "COALESCE(pg_column_size(" + column + "), 0)"
}

// tableNames are the tables of analytics, for a statement.
const tableNames = `'limits', 'sources', 'seen', 'rollups', 'requests', 'latencies', 'answered', 'clients', 'sketches', 'words', 'arrivals', 'losses', 'late'`

// liveBytes returns what the rows of a table take that are not deleted. Of a large table some
// pages are looked at, always the same ones, so that what is measured changes by what was
// done and not by chance.
func (x *table) liveBytes(t rows.Tx) (n int64, err error) {
	if x.pages == 0 {
		return 0, nil
	}
	percent := min(100*float64(maxSampledPages)/float64(x.pages), 100)
	from := x.name
	if percent < 100 {
		from += fmt.Sprintf(" TABLESAMPLE SYSTEM (%s) REPEATABLE (1)", strconv.FormatFloat(percent, 'f', 6, 64))
	}
	err = t.Each("SELECT CAST(COALESCE(SUM("+x.row+"), 0) AS BIGINT), CAST(COALESCE(SUM("+x.entries+"), 0) AS BIGINT) FROM "+from, [][]any{nil}, func(_ int, r rows.Row) error {
		n = int64((float64(r.Int(0)) + float64(r.Int(1))*100/indexFill) * 100 / percent)
		return nil
	})
	return n, err
}
