package analytics

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"
)

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

// settles is how long after its time a block is written first: events come late.
const settles = 5 * time.Minute

// clientColumn is the column that has clients and times.
const clientColumn = "client"

// touchBlock notes that rows of a block change.
const touchBlock = `INSERT INTO client_blocks (grain, at, limit_id, version, state) VALUES ($1, $2, $3, 1, 0)
	ON CONFLICT (grain, at, limit_id) DO UPDATE SET version = client_blocks.version + 1, state = 0`

// clientBlock is the rows of a limit in a span of time, in order of clients and times.
type clientBlock struct {
	clients []string
	rows    []int // of each client
	at      []int64
	// cells and words are the columns. Of one that is the same in all rows there can be one
	// value alone.
	cells [numCells][]int64
	words [numWords][]string
}

// add adds a row, whose columns follow.
func (b *clientBlock) add(client string, at int64, row Row, from int) {
	if n := len(b.clients); n == 0 || b.clients[n-1] != client {
		b.clients, b.rows = append(b.clients, client), append(b.rows, 0)
	}
	b.rows[len(b.rows)-1]++
	b.at = append(b.at, at)
	for c := range b.cells {
		b.cells[c] = append(b.cells[c], row.Int(from+c))
	}
	for w := range b.words {
		b.words[w] = append(b.words[w], row.Text(from+numCells+w))
	}
}

// pack calls each with the columns as bytes. A column of nothing but zeros is left out.
func (b *clientBlock) pack(begins int64, g Grain, each func(name string, bits []byte)) {
	out := binary.AppendUvarint(nil, uint64(len(b.at)))
	out = binary.AppendUvarint(out, uint64(len(b.clients)))
	row := 0
	for i, client := range b.clients {
		out = appendWord(out, client)
		out = binary.AppendUvarint(out, uint64(b.rows[i]))
		for range b.rows[i] {
			out = binary.AppendUvarint(out, uint64((b.at[row]-begins)/g.Seconds()))
			row++
		}
	}
	each(clientColumn, out)
	for c := range b.cells {
		if bits := packCells(b.cells[c], c, b.at); bits != nil {
			each(cellColumns[c].name, bits)
		}
	}
	for w := range b.words {
		if bits := packWords(b.words[w]); bits != nil {
			each(wordColumns[w], bits)
		}
	}
}

func appendWord(to []byte, word string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(word))), word...)
}

// Kinds of columns of numbers: one for all rows, or one for each.
const (
	sameCells  = 1
	apartCells = 0
)

// instants reports whether a cell is an instant, which is told from the row's own.
func instants(cell int) bool { return cell == cFirst || cell == cLast }

// packCells returns numbers as bytes: their kind, then varints.
func packCells(n []int64, cell int, at []int64) []byte {
	value := func(i int) int64 {
		if instants(cell) {
			return n[i] - at[i]*1e6
		}
		return n[i]
	}
	same := true
	for i := range n {
		same = same && value(i) == value(0)
	}
	switch {
	case same && value(0) == 0:
		return nil
	case same:
		return binary.AppendVarint([]byte{sameCells}, value(0))
	}
	out := append(make([]byte, 0, 1+2*len(n)), apartCells)
	for i := range n {
		out = binary.AppendVarint(out, value(i))
	}
	return out
}

// packWords returns words as bytes: the different ones, then which of them each row has,
// unless all have one.
func packWords(words []string) []byte {
	numbers := map[string]int{}
	var different []string
	for _, w := range words {
		if _, ok := numbers[w]; !ok {
			numbers[w] = len(different)
			different = append(different, w)
		}
	}
	if len(different) == 1 && different[0] == "" {
		return nil
	}
	out := binary.AppendUvarint(nil, uint64(len(different)))
	for _, w := range different {
		out = appendWord(out, w)
	}
	if len(different) > 1 {
		for _, w := range words {
			out = binary.AppendUvarint(out, uint64(numbers[w]))
		}
	}
	return out
}

var errBlock = errors.New("a block of clients cannot be read: the row was changed by others")

// blockReader reads packed columns.
type blockReader struct {
	bits []byte
	bad  bool
}

func (r *blockReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.bits)
	r.skip(n)
	return v
}

func (r *blockReader) varint() int64 {
	v, n := binary.Varint(r.bits)
	r.skip(n)
	return v
}

// skip passes over n bytes that were read; none were if n is not positive.
func (r *blockReader) skip(n int) {
	if n <= 0 {
		r.bad, r.bits = true, nil
		return
	}
	r.bits = r.bits[n:]
}

// count reads how many follow, of which each takes a byte at least.
func (r *blockReader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.bits)) {
		r.skip(0)
		return 0
	}
	return int(n)
}

func (r *blockReader) word() string {
	n := r.count()
	w := string(r.bits[:n])
	r.bits = r.bits[n:]
	return w
}

// unpackClients is the reverse of pack, of clients and times.
func (b *clientBlock) unpackClients(bits []byte, begins int64, g Grain) error {
	r := &blockReader{bits: bits}
	n, clients := r.count(), r.count()
	b.clients, b.rows, b.at = slices.Grow(b.clients[:0], clients), slices.Grow(b.rows[:0], clients), slices.Grow(b.at[:0], n)
	for range clients {
		b.clients = append(b.clients, r.word())
		rows := r.count()
		b.rows = append(b.rows, rows)
		for range rows {
			b.at = append(b.at, begins+int64(min(r.uvarint(), math.MaxInt32))*g.Seconds())
		}
	}
	if r.bad || len(r.bits) > 0 || n == 0 || len(b.at) != n {
		return errBlock
	}
	return nil
}

// unpackCells is the reverse of packCells.
func unpackCells(to []int64, bits []byte, cell int, at []int64) ([]int64, error) {
	same, v := len(bits) == 0, int64(0)
	r := &blockReader{}
	if !same {
		r.bits = bits[1:]
		if same = bits[0] == sameCells; same {
			v = r.varint()
		} else if bits[0] != apartCells {
			return nil, errBlock
		}
	}
	if same && !instants(cell) {
		to = append(to[:0], v)
	} else {
		to = slices.Grow(to[:0], len(at))[:len(at)]
		for i := range to {
			if to[i] = v; !same {
				to[i] = r.varint()
			}
			if instants(cell) {
				to[i] += at[i] * 1e6
			}
		}
	}
	if r.bad || len(r.bits) > 0 {
		return to, errBlock
	}
	return to, nil
}

// unpackWords is the reverse of packWords.
func unpackWords(to []string, bits []byte, rows int) ([]string, error) {
	if len(bits) == 0 {
		return append(to[:0], ""), nil
	}
	r := &blockReader{bits: bits}
	different := make([]string, r.count())
	for i := range different {
		different[i] = r.word()
	}
	if len(different) == 1 {
		rows = 0
		to = append(to[:0], different[0])
	} else {
		to = slices.Grow(to[:0], rows)[:rows]
	}
	for i := range rows {
		n := r.uvarint()
		if n >= uint64(len(different)) {
			return to, errBlock
		}
		to[i] = different[n]
	}
	if r.bad || len(r.bits) > 0 {
		return to, errBlock
	}
	return to, nil
}

// blockShare is up to what part of MaxBytes, in a hundred, blocks are written: what is over
// MaxBytes goes at the expense of blocks first.
const blockShare = 95

// writeBlocks writes the blocks whose time is over and that are not whole, the newest
// first, until all are, so much time has passed, or there is no room: rows do not go for
// the sake of blocks.
func (s *sweeper) writeBlocks(ctx context.Context, most time.Duration) error {
	began, room := time.Now(), int64(math.MaxInt64)
	if s.opt.MaxBytes >= 0 {
		used, err := s.db.Used(ctx)
		if err != nil {
			return err
		}
		room = s.opt.MaxBytes/100*blockShare - used
	}
	for _, g := range [...]Grain{Minute, Hour} {
		todo, err := s.unwritten(ctx, g)
		if err != nil {
			return err
		}
		for _, at := range todo {
			if time.Since(began) > most || room <= 0 {
				return nil
			}
			bytes, err := s.writeBlock(ctx, g, at, room)
			if err != nil {
				return err
			}
			room -= bytes
		}
	}
	return nil
}

// unwritten returns the spans whose blocks are to be written, the newest first.
func (s *sweeper) unwritten(ctx context.Context, g Grain) (todo []int64, err error) {
	now, length := s.opt.Now(), blockSeconds(g)
	from, to := ceil(s.opt.kept(now).clients[g], length), floor(now.Add(-settles).Unix(), length)
	err = s.db.View(ctx, func(tx Tx) error {
		todo = nil
		oldest := int64(math.MaxInt64)
		err := query(tx, func(r Row) { oldest = r.Int(0) }, `SELECT at FROM clients WHERE grain = $1 AND at >= $2 ORDER BY at LIMIT 1`, int64(g), from)
		if err != nil || oldest == math.MaxInt64 {
			return err
		}
		spans, err := blockSpans(tx, g, from, to)
		if err != nil {
			return err
		}
		for at := floor(oldest, length); at < to; at += length {
			s := spans[at]
			if s == nil || s.state == blockChanged || s.state == blockWhole && slices.Contains(s.states(), blockChanged) {
				todo = append(todo, at)
			}
		}
		slices.Reverse(todo)
		return nil
	})
	return todo, err
}

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
func blockSpans(tx Tx, g Grain, from, to int64) (map[int64]*blockSpan, error) {
	out := map[int64]*blockSpan{}
	return out, query(tx, func(r Row) {
		s := entry(out, r.Int(0), func() *blockSpan { return &blockSpan{limits: map[int64]blockState{}} })
		if limit := r.Int(1); limit == everyLimit {
			s.state = r.Int(3)
		} else {
			s.limits[limit] = blockState{r.Int(2), r.Int(3)}
		}
	}, `SELECT at, limit_id, version, state FROM client_blocks WHERE grain = $1 AND at >= $2 AND at < $3`, int64(g), from, to)
}

// packedBlock are the columns of a block, and what it was made of.
type packedBlock struct {
	limit int64
	was   blockState
	known bool // there was a row of it
	names []string
	bits  [][]byte
}

// writeBlock writes the blocks of a span that are not whole, if there is room, and returns
// how many bytes they take.
func (s *sweeper) writeBlock(ctx context.Context, g Grain, at, room int64) (bytes int64, err error) {
	var packed []*packedBlock
	err = s.db.View(ctx, func(tx Tx) (err error) {
		packed, err = packBlocks(tx, g, at)
		return err
	})
	for _, p := range packed {
		for _, bits := range p.bits {
			bytes += int64(len(bits)) + columnBytes
		}
	}
	if err != nil || bytes > room {
		return bytes, err
	}
	return bytes, updateRows(ctx, s.db, func(tx Tx) error {
		// Whoever deletes rows of the span waits, or is done.
		state := int64(blockChanged)
		err := query(tx, func(r Row) { state = r.Int(0) },
			`INSERT INTO client_blocks (grain, at, limit_id, version, state) VALUES ($1, $2, 0, 0, 1)
			ON CONFLICT (grain, at, limit_id) DO UPDATE SET state = CASE WHEN client_blocks.state = 2 THEN 2 ELSE 1 END RETURNING state`, int64(g), at)
		if err != nil || state == blockCut {
			return err
		}
		for _, p := range packed {
			if err := p.write(tx, g, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// packBlocks reads the rows of a span whose limits' blocks are not whole.
func packBlocks(tx Tx, g Grain, at int64) (packed []*packedBlock, err error) {
	length := blockSeconds(g)
	spans, err := blockSpans(tx, g, at, at+length)
	if err != nil {
		return nil, err
	}
	span := spans[at]
	if span == nil {
		span = &blockSpan{}
	}
	w := rowsOf(g, at, at+length)
	var stale []int64
	for limit, b := range span.limits {
		if b.state != blockWhole {
			stale = append(stale, limit)
		}
	}
	slices.Sort(stale)
	if span.state == blockWhole {
		w.and("limit_id IN (" + ids(stale) + ")")
	}
	limit, b := int64(-1), &clientBlock{}
	flush := func() {
		if len(b.at) == 0 {
			return
		}
		p := &packedBlock{limit: limit}
		p.was, p.known = span.limits[limit]
		b.pack(at, g, func(name string, bits []byte) { p.names, p.bits = append(p.names, name), append(p.bits, bits) })
		packed = append(packed, p)
	}
	met := map[int64]bool{}
	err = query(tx, func(r Row) {
		if id := r.Int(0); id != limit {
			flush()
			limit, b = id, &clientBlock{}
			met[id] = true
		}
		b.add(r.Text(1), r.Int(2), r, 3)
	}, `SELECT limit_id, client, at, `+columnList+` FROM clients`+w.text+` ORDER BY limit_id, client, at`, w.args...)
	if err != nil {
		return nil, err
	}
	flush()
	for _, id := range stale { // and has no rows
		if !met[id] {
			packed = append(packed, &packedBlock{limit: id, was: span.limits[id], known: true})
		}
	}
	slices.SortFunc(packed, func(a, b *packedBlock) int { return cmp.Compare(a.limit, b.limit) })
	return packed, nil
}

// write writes a block, unless rows of it have changed since it was made.
func (p *packedBlock) write(tx Tx, g Grain, at int64) error {
	same := false
	statement, args := `INSERT INTO client_blocks (grain, at, limit_id, version, state) VALUES ($1, $2, $3, 0, 1)
		ON CONFLICT (grain, at, limit_id) DO NOTHING RETURNING 1`, []any{int64(g), at, p.limit}
	if p.known {
		statement = `UPDATE client_blocks SET state = 1 WHERE grain = $1 AND at = $2 AND limit_id = $3 AND version = $4 RETURNING 1`
		args = append(args, p.was.version)
	}
	if err := query(tx, func(Row) { same = true }, statement, args...); err != nil || !same {
		return err
	}
	if err := exec(tx, `DELETE FROM client_columns WHERE grain = $1 AND at = $2 AND limit_id = $3`, int64(g), at, p.limit); err != nil {
		return err
	}
	rows := make([][]any, len(p.names))
	for i, name := range p.names {
		rows[i] = []any{int64(g), at, p.limit, name, p.bits[i]}
	}
	return tx.Each(`INSERT INTO client_columns (grain, at, limit_id, name, bits) VALUES ($1, $2, $3, $4, $5)`, rows, nil)
}

// cutBlocks has questions read the rows themselves of the span that has an instant, and of
// those before it: rows of it are deleted next. What was written of them goes.
func (s *sweeper) cutBlocks(ctx context.Context, g Grain, instant int64) error {
	last := floor(instant, blockSeconds(g))
	err := updateRows(ctx, s.db, func(tx Tx) error {
		err := exec(tx, `INSERT INTO client_blocks (grain, at, limit_id, version, state) VALUES ($1, $2, 0, 0, 2)
			ON CONFLICT (grain, at, limit_id) DO UPDATE SET state = 2`, int64(g), last)
		if err != nil {
			return err
		}
		return exec(tx, `UPDATE client_blocks SET state = 2 WHERE grain = $1 AND at < $2 AND limit_id = 0 AND state <> 2`, int64(g), last)
	})
	for gone := int64(columnStep); gone == columnStep && err == nil; {
		gone, err = s.deleteRows(ctx, columnsTable.deletion("grain = $1 AND at <= $2 LIMIT $3"), []any{int64(g), last, int64(columnStep)})
	}
	return err
}

// dropBlocks deletes what was written of the oldest spans, so many of them, those of the
// finest grain first. Their rows stay.
func (s *sweeper) dropBlocks(ctx context.Context, most int) (gone int, err error) {
	var spans []group
	err = s.db.View(ctx, func(tx Tx) error {
		spans = nil
		return query(tx, func(r Row) { spans = append(spans, group{Grain(r.Int(0)), r.Int(1)}) },
			`SELECT DISTINCT grain, at FROM client_columns ORDER BY grain, at LIMIT `+strconv.Itoa(most))
	})
	for _, b := range spans {
		if err != nil {
			break
		}
		gone++
		err = updateRows(ctx, s.db, func(tx Tx) error {
			// The row of the span first: who writes its blocks waits, or is done.
			for _, rows := range [...]string{"limit_id = 0 AND state = 1", "limit_id <> 0"} {
				if err := exec(tx, `UPDATE client_blocks SET state = 0 WHERE grain = $1 AND at = $2 AND `+rows, int64(b.grain), b.at); err != nil {
					return err
				}
			}
			return exec(tx, `DELETE FROM client_columns WHERE grain = $1 AND at = $2`, int64(b.grain), b.at)
		})
	}
	return gone, err
}

// columnBytes is about what a column takes beside its bytes.
const columnBytes = 200

// columnStep is how many columns go in one transaction.
const columnStep = 200
