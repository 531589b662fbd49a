package analytics

import (
	"cmp"
	"maps"
	"slices"
)

// placedRow is a row that is kept by limit, node and region, with figures of which two
// become one.
type placedRow struct {
	grain Grain
	at    int64
	limit Limit
	where place
}

// packed are figures in a row.
type packed interface {
	// pack returns them as bytes, merge takes in what it returned.
	pack() []byte
	merge(bytes []byte) error
}

// writePlaced puts figures into the rows of a table that are there.
func writePlaced[P packed](tx Tx, table string, figures map[placedRow]P, ids limitIDs) error {
	rows := slices.SortedFunc(maps.Keys(figures), func(a, b placedRow) int {
		return cmp.Or(cmp.Compare(a.grain, b.grain), cmp.Compare(a.at, b.at), cmp.Compare(ids[a.limit], ids[b.limit]),
			cmp.Compare(a.where.node, b.where.node), cmp.Compare(a.where.region, b.where.region))
	})
	args := make([][]any, len(rows))
	for i, r := range rows {
		args[i] = []any{int64(r.grain), r.at, ids[r.limit], r.where.node, r.where.region, []byte{}}
	}
	// What is there is locked and read in one statement, as of sketches.
	err := tx.Each(`INSERT INTO `+table+` (grain, at, limit_id, node, region, bits) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (grain, at, limit_id, node, region) DO UPDATE SET bits = `+table+`.bits RETURNING bits`, args, func(i int, r Row) error {
		return figures[rows[i]].merge(r.Bytes(0))
	})
	if err != nil {
		return err
	}
	for i, r := range rows {
		args[i] = []any{figures[r].pack(), int64(r.grain), r.at, ids[r.limit], r.where.node, r.where.region}
	}
	return tx.Each(`UPDATE `+table+` SET bits = $1 WHERE grain = $2 AND at = $3 AND limit_id = $4 AND node = $5 AND region = $6`, args, nil)
}
