package analytics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table is a table of the database, with the columns that name a row.
type table struct {
	name string
	keys []string
}

func tableOf(name string, keys ...string) table { return table{name, keys} }

// The tables. Rows are written in the order of their keys.
var (
	limitsTable    = tableOf("limits", "domain", "rule", "name", "algorithm", "allowance", "period_ms", "burst")
	sourcesTable   = tableOf("sources", "source")
	seenTable      = tableOf("seen", "source_id", "block")
	rollupsTable   = tableOf("rollups", "grain", "at", "limit_id", "node", "region", "outcome")
	requestsTable  = tableOf("requests", "grain", "at", "domain", "node", "region", "outcome")
	latenciesTable = tableOf("latencies", "grain", "at", "limit_id", "node", "region")
	responsesTable = tableOf("answered", "grain", "at", "limit_id", "node", "region")
	sketchesTable  = tableOf("sketches", "grain", "at", "limit_id", "kind")
	clientsTable   = tableOf("clients", "grain", "at", "limit_id", "client")
	wordsTable     = tableOf("words", "at", "limit_id", "kind", "word")
	arrivalsTable  = tableOf("arrivals", "id")
	lossesTable    = tableOf("losses", "source_id", "at")
	lateTable      = tableOf("late", "at")
)

// countTables are those whose rows are kept as long as the counts of their grain.
var countTables = []table{rollupsTable, requestsTable, latenciesTable, responsesTable, sketchesTable}

// column is a column of a table, and how two values of it become one.
type column struct {
	name string
	way  way
}

// way is how two values of a column become one.
type way uint8

const (
	sum way = iota
	most
	least
	either   // bits of both
	stays    // the one that is there
	nonEmpty // the one that comes, unless it is empty
	newest   // the one of the later row of a client, unless it is empty
)

// columnsOf returns columns of one way.
func columnsOf(way way, names ...string) []column {
	out := make([]column, len(names))
	for i, name := range names {
		out[i] = column{name, way}
	}
	return out
}

// upsert returns a statement that puts a row into the one that is there, with the values
// of the keys and then of the columns as arguments. It answers with a column, if one is named.
func (t table) upsert(returning string, columns ...column) string {
	names, set := slices.Clone(t.keys), make([]string, len(columns))
	for i, c := range columns {
		names = append(names, c.name)
		set[i] = c.name + " = " + c.way.of(t.name+"."+c.name, "excluded."+c.name)
	}
	marks := make([]string, len(names))
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	statement := "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") +
		") ON CONFLICT (" + strings.Join(t.keys, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
	if returning != "" {
		statement += " RETURNING " + returning
	}
	return statement
}

// of returns what becomes of the value that is there and the one that comes.
func (w way) of(there, comes string) string {
	choose := func(condition string) string {
		return "CASE WHEN " + condition + " THEN " + comes + " ELSE " + there + " END"
	}
	switch w {
	case sum:
		return there + " + " + comes
	case most:
		return choose(comes + " > " + there)
	case least:
		return choose(comes + " < " + there)
	case either:
		return there + " | " + comes
	case nonEmpty:
		return choose(comes + " <> ''")
	case newest:
		return choose(comes + " <> '' AND (excluded.last_us >= clients.last_us OR " + there + " = '')")
	}
	return there
}

// deletion returns a statement that deletes rows and answers with one row for each. rows
// says which, and ends with how many at most.
func (t table) deletion(rows string) string {
	keys := strings.Join(t.keys, ", ")
	if len(t.keys) > 1 {
		keys = "(" + keys + ")"
	}
	return "DELETE FROM " + t.name + " WHERE " + keys + " IN (SELECT " + strings.Join(t.keys, ", ") + " FROM " + t.name + " WHERE " + rows + ") RETURNING 1"
}

// rowKey names a row before it has the numbers of the database.
type rowKey interface {
	comparable
	// args returns the values of the table's keys.
	args(n *numbers) []any
}

// numbers are those that the database gave to limits and sources.
type numbers struct {
	limits  map[Limit]int64
	sources map[string]int64
}

// sortRows returns the keys of rows in the order in which they are written, and their values.
func sortRows[K rowKey, V any](rows map[K]V, n *numbers) (keys []K, args [][]any) {
	type row struct {
		key  K
		args []any
	}
	all := make([]row, 0, len(rows))
	for key := range rows {
		all = append(all, row{key, key.args(n)})
	}
	slices.SortFunc(all, func(a, b row) int { return slices.CompareFunc(a.args, b.args, compareArgs) })
	for _, r := range all {
		keys, args = append(keys, r.key), append(args, r.args)
	}
	return keys, args
}

// compareArgs orders arguments of one column.
func compareArgs(a, b any) int {
	if n, ok := a.(int64); ok {
		return cmp.Compare(n, b.(int64))
	}
	return cmp.Compare(a.(string), b.(string))
}

// writeRows puts rows into those of a table that are there.
func writeRows[K rowKey, V any](tx Tx, t table, rows map[K]V, n *numbers, values func(V) []any, columns ...column) error {
	keys, args := sortRows(rows, n)
	for i, key := range keys {
		args[i] = append(args[i], values(rows[key])...)
	}
	return failedAt(t, tx.Each(t.upsert("", columns...), args, nil))
}

// packed are figures in a row.
type packed interface {
	// pack returns them as bytes, merge takes in what it returned.
	pack() []byte
	merge(bytes []byte) error
}

// writePacked puts figures into the rows of a table that are there.
func writePacked[K rowKey, P packed](tx Tx, t table, rows map[K]P, n *numbers) error {
	keys, args := sortRows(rows, n)
	for i := range args {
		args[i] = append(args[i], []byte{})
	}
	// What is there is locked and read in one statement.
	err := tx.Each(t.upsert("bits", column{"bits", stays}), args, func(i int, r Row) error { return rows[keys[i]].merge(r.Bytes(0)) })
	if err != nil {
		return failedAt(t, err)
	}
	set := "UPDATE " + t.name + " SET bits = $1 WHERE "
	for i, key := range t.keys {
		if i > 0 {
			set += " AND "
		}
		set += key + " = $" + strconv.Itoa(i+2)
	}
	for i, key := range keys {
		last := len(t.keys)
		args[i] = append([]any{rows[key].pack()}, args[i][:last]...)
	}
	return failedAt(t, tx.Each(set, args, nil))
}

// failedAt says of which table an error is.
func failedAt(t table, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}
