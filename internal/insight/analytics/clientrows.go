package analytics

import (
	"cmp"
	"maps"
	"slices"
)

// clientLine is a row of a client, with the columns that a question asked for.
type clientLine struct {
	limit, at int64
	client    string
	cells
}

// clientColumns are the columns that a question needs.
type clientColumns struct {
	cells, words []int
	// merged: it needs the rows of merged clients too.
	merged bool
	// condition is what the rows that it needs have. Empty means all.
	condition string
}

// clientRows calls each with the rows of the clients that are meant, in no order; those
// that are merged are the client "", and are left out unless they are needed.
func (r *reader) clientRows(g Grain, from, to int64, need clientColumns, each func(*clientLine)) {
	w := r.clientsOf(g, from, to)
	if !need.merged {
		w.and("client <> ''")
	}
	if need.condition != "" {
		w.and(need.condition)
	}
	var line clientLine
	columns, read := need.columns()
	r.query(func(row Row) {
		read(&line, row)
		each(&line)
	}, `SELECT `+columns+` FROM clients`+r.byClient()+w.text, w.args...)
}

// wantedRows calls each with the rows of some clients, with what want says of them: those of
// a client together, in order of time.
func (r *reader) wantedRows(g Grain, from, to int64, want map[clientKey]int, need clientColumns, each func(of int, l *clientLine)) {
	var args [][]any
	for _, k := range slices.SortedFunc(maps.Keys(want), func(a, b clientKey) int {
		return cmp.Or(cmp.Compare(a.limit, b.limit), cmp.Compare(a.client, b.client))
	}) {
		args = append(args, []any{int64(g), k.client, k.limit, from, to})
	}
	var line clientLine
	columns, read := need.columns()
	r.each(`SELECT `+columns+` FROM clients `+r.hint+` WHERE grain = $1 AND client = $2 AND limit_id = $3 AND at >= $4 AND at < $5 ORDER BY at`,
		args, func(_ int, row Row) error {
			read(&line, row)
			each(want[clientKey{line.limit, line.client}], &line)
			return nil
		})
}

// columns returns the columns for a statement, with those of the limit, the time and the
// client, and what reads a row of it.
func (c *clientColumns) columns() (list string, read func(*clientLine, Row)) {
	list = "limit_id, at, client"
	for _, cell := range c.cells {
		list += ", " + cellColumns[cell].name
	}
	for _, word := range c.words {
		list += ", " + wordColumns[word]
	}
	return list, func(l *clientLine, row Row) {
		l.limit, l.at, l.client = row.Int(0), row.Int(1), row.Text(2)
		for i, cell := range c.cells {
			l.n[cell] = row.Int(3 + i)
		}
		for i, word := range c.words {
			l.w[word] = row.Text(3 + len(c.cells) + i)
		}
	}
}
