package rows

import (
	"slices"
	"strconv"
	"strings"
)

// Table is a table of the database, with the columns that name a row.
type Table struct {
	Name string
	Keys []string
}

// The tables. Rows are written in the order of their keys.
var (
	LimitsTable    = Table{"limits", []string{"domain", "rule", "name", "algorithm", "allowance", "period_ms", "burst"}}
	SourcesTable   = Table{"sources", []string{"source"}}
	SeenTable      = Table{"seen", []string{"source_id", "block"}}
	RollupsTable   = Table{"rollups", []string{"grain", "at", "limit_id", "node", "region", "outcome"}}
	RequestsTable  = Table{"requests", []string{"grain", "at", "domain", "node", "region", "outcome"}}
	LatenciesTable = Table{"latencies", []string{"grain", "at", "limit_id", "node", "region"}}
	ResponsesTable = Table{"answered", []string{"grain", "at", "limit_id", "node", "region"}}
	SketchesTable  = Table{"sketches", []string{"grain", "at", "limit_id", "kind"}}
	ClientsTable   = Table{"clients", []string{"grain", "at", "limit_id", "client"}}
	WordsTable     = Table{"words", []string{"at", "limit_id", "kind", "word"}}
	ArrivalsTable  = Table{"arrivals", []string{"id"}}
	LossesTable    = Table{"losses", []string{"source_id", "at"}}
	LateTable      = Table{"late", []string{"at"}}
)

// CountTables are those whose rows are kept as long as the counts of their grain.
var CountTables = []Table{RollupsTable, RequestsTable, LatenciesTable, ResponsesTable, SketchesTable}

// Column is a column of a table, and how two values of it become one.
type Column struct {
	name string
	Way  Way
}

// Way is how two values of a column become one.
type Way uint8

// The ways.
const (
	Sum Way = iota
	Greatest
	Smallest
	Either   // bits of both
	Stays    // the one that is there
	NonEmpty // the one that comes, unless it is empty
	Newest   // the one of the later row of a client, unless it is empty
)

// Column returns a column whose values become one in this way.
func (w Way) Column(name string) Column { return Column{name, w} }

// ColumnsOf returns columns of one way.
func ColumnsOf(w Way, names ...string) []Column {
	out := make([]Column, len(names))
	for i, name := range names {
		out[i] = w.Column(name)
	}
	return out
}

// UpsertStatement returns a statement that puts a row into the one that is there, with the values
// of the keys and then of the columns as arguments. It answers with a column, if one is named.
func (t Table) UpsertStatement(returning string, columns ...Column) string {
	names, set := slices.Clone(t.Keys), make([]string, len(columns))
	for i, c := range columns {
		names = append(names, c.name)
		set[i] = c.name + " = " + c.Way.combineValues(t.Name+"."+c.name, "excluded."+c.name)
	}
	marks := make([]string, len(names))
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	statement := "INSERT INTO " + t.Name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") +
		") ON CONFLICT (" + strings.Join(t.Keys, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
	if returning != "" {
		statement += " RETURNING " + returning
	}
	return statement
}

// combineValues returns what becomes of the value that is there and the one that comes.
func (w Way) combineValues(there, comes string) string {
	choose := func(condition string) string {
		return "CASE WHEN " + condition + " THEN " + comes + " ELSE " + there + " END"
	}
	switch w {
	case Sum:
		return there + " + " + comes
	case Greatest:
		return choose(comes + " > " + there)
	case Smallest:
		return choose(comes + " < " + there)
	case Either:
		return there + " | " + comes
	case NonEmpty:
		return choose(comes + " <> ''")
	case Newest:
		return choose(comes + " <> '' AND (excluded.last_us >= clients.last_us OR " + there + " = '')")
	}
	return there
}

// DeleteStatement returns a statement that deletes rows and answers with one row for each. rows
// says which, and ends with how many at most.
func (t Table) DeleteStatement(rows string) string {
	keys := strings.Join(t.Keys, ", ")
	if len(t.Keys) > 1 {
		keys = "(" + keys + ")"
	}
	return "DELETE FROM " + t.Name + " WHERE " + keys + " IN (SELECT " + strings.Join(t.Keys, ", ") + " FROM " + t.Name + " WHERE " + rows + ") RETURNING 1"
}
