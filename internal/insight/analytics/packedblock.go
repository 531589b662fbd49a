package analytics

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"
)

// settles is how long after its time a block is written first: events come late.
const settles = 5 * time.Minute

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
	err = s.db.View(ctx, asTx(func(in *statements) {
		todo = nil
		oldest := int64(math.MaxInt64)
		in.query(func(r Row) { oldest = r.Int(0) }, `SELECT at FROM clients WHERE grain = $1 AND at >= $2 ORDER BY at LIMIT 1`, int64(g), from)
		if oldest == math.MaxInt64 {
			return
		}
		spans := blockSpans(in, g, from, to)
		for at := floor(oldest, length); at < to; at += length {
			s := spans[at]
			if s == nil || s.state == blockChanged || s.state == blockWhole && slices.Contains(s.states(), blockChanged) {
				todo = append(todo, at)
			}
		}
		slices.Reverse(todo)
	}))
	return todo, err
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
	err = s.db.View(ctx, asTx(func(in *statements) { packed = packBlocks(in, g, at) }))
	for _, p := range packed {
		for _, bits := range p.bits {
			bytes += int64(len(bits)) + columnBytes
		}
	}
	if err != nil || bytes > room {
		return bytes, err
	}
	return bytes, updateRows(ctx, s.db, func(in *statements) {
		// Whoever deletes rows of the span waits, or is done.
		state := int64(blockChanged)
		in.query(func(r Row) { state = r.Int(0) },
			`INSERT INTO client_blocks (grain, at, limit_id, version, state) VALUES ($1, $2, 0, 0, 1)
			ON CONFLICT (grain, at, limit_id) DO UPDATE SET state = CASE WHEN client_blocks.state = 2 THEN 2 ELSE 1 END RETURNING state`, int64(g), at)
		if state == blockCut {
			return
		}
		for _, p := range packed {
			p.write(in, g, at)
		}
	})
}

// packBlocks reads the rows of a span whose limits' blocks are not whole.
func packBlocks(in *statements, g Grain, at int64) (packed []*packedBlock) {
	length := blockSeconds(g)
	span := blockSpans(in, g, at, at+length)[at]
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
	var line clientLine
	columns, read := allColumns.columns()
	in.query(func(r Row) {
		if read(&line, r); line.limit != limit {
			flush()
			limit, b = line.limit, &clientBlock{}
			met[limit] = true
		}
		b.add(&line)
	}, `SELECT `+columns+` FROM clients`+w.text+` ORDER BY limit_id, client, at`, w.args...)
	flush()
	for _, id := range stale { // and has no rows
		if !met[id] {
			packed = append(packed, &packedBlock{limit: id, was: span.limits[id], known: true})
		}
	}
	slices.SortFunc(packed, func(a, b *packedBlock) int { return cmp.Compare(a.limit, b.limit) })
	return packed
}

// write writes a block, unless rows of it have changed since it was made.
func (p *packedBlock) write(in *statements, g Grain, at int64) {
	same := false
	statement, args := `INSERT INTO client_blocks (grain, at, limit_id, version, state) VALUES ($1, $2, $3, 0, 1)
		ON CONFLICT (grain, at, limit_id) DO NOTHING RETURNING 1`, []any{int64(g), at, p.limit}
	if p.known {
		statement = `UPDATE client_blocks SET state = 1 WHERE grain = $1 AND at = $2 AND limit_id = $3 AND version = $4 RETURNING 1`
		args = append(args, p.was.version)
	}
	if in.query(func(Row) { same = true }, statement, args...); !same {
		return
	}
	in.exec(`DELETE FROM client_columns WHERE grain = $1 AND at = $2 AND limit_id = $3`, int64(g), at, p.limit)
	rows := make([][]any, len(p.names))
	for i, name := range p.names {
		rows[i] = []any{int64(g), at, p.limit, name, p.bits[i]}
	}
	in.each(`INSERT INTO client_columns (grain, at, limit_id, name, bits) VALUES ($1, $2, $3, $4, $5)`, rows, nil)
}

// cutBlocks has questions read the rows themselves of the span that has an instant, and of
// those before it: rows of it are deleted next. What was written of them goes.
func (s *sweeper) cutBlocks(ctx context.Context, g Grain, instant int64) error {
	last := floor(instant, blockSeconds(g))
	err := updateRows(ctx, s.db, func(in *statements) {
		in.exec(`INSERT INTO client_blocks (grain, at, limit_id, version, state) VALUES ($1, $2, 0, 0, 2)
			ON CONFLICT (grain, at, limit_id) DO UPDATE SET state = 2`, int64(g), last)
		in.exec(`UPDATE client_blocks SET state = 2 WHERE grain = $1 AND at < $2 AND limit_id = 0 AND state <> 2`, int64(g), last)
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
	err = s.db.View(ctx, asTx(func(in *statements) {
		spans = nil
		in.query(func(r Row) { spans = append(spans, group{Grain(r.Int(0)), r.Int(1)}) },
			`SELECT DISTINCT grain, at FROM client_columns ORDER BY grain, at LIMIT `+strconv.Itoa(most))
	}))
	for _, b := range spans {
		if err != nil {
			break
		}
		gone++
		err = updateRows(ctx, s.db, func(in *statements) {
			// The row of the span first: who writes its blocks waits, or is done.
			for _, rows := range [...]string{"limit_id = 0 AND state = 1", "limit_id <> 0"} {
				in.exec(`UPDATE client_blocks SET state = 0 WHERE grain = $1 AND at = $2 AND `+rows, int64(b.grain), b.at)
			}
			in.exec(`DELETE FROM client_columns WHERE grain = $1 AND at = $2`, int64(b.grain), b.at)
		})
	}
	return gone, err
}

// columnBytes is about what a column takes beside its bytes.
const columnBytes = 200

// columnStep is how many columns go in one transaction.
const columnStep = 200
