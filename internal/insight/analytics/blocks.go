package analytics

import "slices"

// A question of a month is about millions of rows of clients, more than a database reads
// in a second. So the rows are kept a second time, by columns: a block is what a limit has
// in a span of time, a row of client_columns is one column of a block. A question reads the
// few columns that it needs. A block is written when its time is over, and is left out by
// questions from the moment that one of its rows changes until it is written again.
//
// A row of client_blocks with the limit 0 says that all limits which have rows in a span
// have a row there too. Who changes rows of clients changes the row of the block first, in
// the same transaction.

// blockSeconds is how long a span the blocks of a grain are of. Spans begin at multiples of it.
func blockSeconds(g Grain) int64 { return [...]int64{0, 3600, 6 * 3600}[g] }

// States of a block.
const (
	blockChanged = 0 // since it was written
	blockWhole   = 1
	blockCut     = 2 // rows of it were deleted: it is not written any more
)

// everyLimit is the limit of the row that is about a span.
const everyLimit = 0

// clientColumn is the column that has clients and times.
const clientColumn = "client"

// touchBlock notes that rows of a block change.
const touchBlock = `INSERT INTO client_blocks (grain, at, limit_id, version, state) VALUES ($1, $2, $3, 1, 0)
	ON CONFLICT (grain, at, limit_id) DO UPDATE SET version = client_blocks.version + 1, state = 0`

// blockSpan is what is known of the blocks of a span.
type blockSpan struct {
	// state is whole if all limits that have rows in it are in limits.
	state  int64
	limits map[int64]blockState
}

type blockState struct{ version, state int64 }

func (s *blockSpan) states() (out []int64) {
	for _, b := range s.limits {
		out = append(out, b.state)
	}
	return out
}

// whole reports whether all rows of a limit are in its block.
func (s *blockSpan) whole(limit int64) bool {
	b, ok := s.limits[limit]
	return s.state == blockWhole && (!ok || b.state == blockWhole)
}

// blockSpans reads what is known of spans.
func blockSpans(in *statements, g Grain, from, to int64) map[int64]*blockSpan {
	out := map[int64]*blockSpan{}
	in.query(func(r Row) {
		s := entry(out, r.Int(0), func() *blockSpan { return &blockSpan{limits: map[int64]blockState{}} })
		if limit := r.Int(1); limit == everyLimit {
			s.state = r.Int(3)
		} else {
			s.limits[limit] = blockState{r.Int(2), r.Int(3)}
		}
	}, `SELECT at, limit_id, version, state FROM client_blocks WHERE grain = $1 AND at >= $2 AND at < $3`, int64(g), from, to)
	return out
}

// touchBlocks notes that rows change, whose keys are in order.
func touchBlocks(tx Tx, rows [][]any) error {
	var blocks [][]any
	for _, r := range rows {
		g, at := r[0].(int64), r[1].(int64)
		blocks = append(blocks, []any{g, floor(at, blockSeconds(Grain(g))), r[2]})
	}
	compare := func(a, b []any) int { return slices.CompareFunc(a, b, compareArgs) }
	slices.SortFunc(blocks, compare)
	return tx.Each(touchBlock, slices.CompactFunc(blocks, func(a, b []any) bool { return compare(a, b) == 0 }), nil)
}
