package count

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// rowKey names a row before it has the numbers of the database.
type rowKey interface {
	comparable
	// keyArgs returns the values of the table's keys.
	keyArgs(n *numbers) []any
}

// numbers are those that the database gave to limits and sources.
type numbers struct {
	limits  map[rows.Limit]int64
	sources map[string]int64
}

// sortRows returns the keys of rows in the order in which they are written, and their values.
func sortRows[K rowKey, V any](all map[K]V, n *numbers) (keys []K, args [][]any) {
	type row struct {
		key  K
		args []any
	}
	list := make([]row, 0, len(all))
	for key := range all {
		list = append(list, row{key, key.keyArgs(n)})
	}
	slices.SortFunc(list, func(a, b row) int { return slices.CompareFunc(a.args, b.args, compareArgs) })
	for _, r := range list {
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
func writeRows[K rowKey, V any](in *rows.Statements, t rows.Table, all map[K]V, n *numbers, values func(V) []any, columns ...rows.Column) {
	keys, args := sortRows(all, n)
	for i, key := range keys {
		args[i] = append(args[i], values(all[key])...)
	}
	in.WriteRows(t, t.UpsertStatement("", columns...), args, nil)
}

// packed are figures in a row.
type packed interface {
	// MarshalRow returns them as bytes, MergeRow takes in what it returned.
	MarshalRow() []byte
	MergeRow(bytes []byte) error
}

// writePacked puts figures into the rows of a table that are there.
func writePacked[K rowKey, P packed](in *rows.Statements, t rows.Table, all map[K]P, n *numbers) {
	keys, args := sortRows(all, n)
	for i := range args {
		args[i] = append(args[i], []byte{})
	}
	// What is there is locked and read in one statement.
	in.WriteRows(t, t.UpsertStatement("bits", rows.Stays.Column("bits")), args, func(i int, r rows.Row) error { return all[keys[i]].MergeRow(r.Bytes(0)) })
	set := "UPDATE " + t.Name + " SET bits = $1 WHERE "
	for i, key := range t.Keys {
		if i > 0 {
			set += " AND "
		}
		set += key + " = $" + strconv.Itoa(i+2)
	}
	for i, key := range keys {
		last := len(t.Keys)
		args[i] = append([]any{all[key].MarshalRow()}, args[i][:last]...)
	}
	in.WriteRows(t, set, args, nil)
}
