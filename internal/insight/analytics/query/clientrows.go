package query

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// EachClientRow calls each with the rows of the clients that are meant, in no order; those
// that are merged are the client "", and are left out unless they are needed.
func (r *Reader) EachClientRow(from, to int64, need rows.ClientColumns, each func(*rows.ClientLine)) {
	w := r.WhereClients(from, to)
	if !need.Merged {
		w.AddCondition("client <> ''")
	}
	if need.Condition != "" {
		w.AddCondition(need.Condition)
	}
	var line rows.ClientLine
	columns, read := need.Columns()
	r.ReadRows(func(row rows.Row) {
		read(&line, row)
		each(&line)
	}, `SELECT `+columns+` FROM clients`+r.ClientHint()+w.Text, w.Args...)
}

// EachWantedRow calls each with the rows of some clients, with what want says of them: those of
// a client together, in order of time.
func (r *Reader) EachWantedRow(g rows.Grain, from, to int64, want map[rows.ClientKey]int, need rows.ClientColumns, each func(of int, l *rows.ClientLine)) {
	var args [][]any
	for _, k := range slices.SortedFunc(maps.Keys(want), func(a, b rows.ClientKey) int {
		return cmp.Or(cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Client, b.Client))
	}) {
		args = append(args, []any{int64(g), k.Client, k.Limit, from, to})
	}
	var line rows.ClientLine
	columns, read := need.Columns()
	r.EachRow(`SELECT `+columns+` FROM clients `+r.Hint+` WHERE grain = $1 AND client = $2 AND limit_id = $3 AND at >= $4 AND at < $5 ORDER BY at`,
		args, func(_ int, row rows.Row) error {
			read(&line, row)
			each(want[line.ClientKey], &line)
			return nil
		})
}
