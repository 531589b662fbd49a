package analytics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// clientLine is a row of a client, with the columns that a question asked for.
type clientLine struct {
	limit, at int64
	client    string
	cells
}

// clientColumns are the columns that a question needs, and whether it needs the rows of
// merged clients too.
type clientColumns struct {
	cells, words []int
	merged       bool
}

// clientRows calls each with the rows of the clients that are meant, in no order; those
// that are merged are the client "", and are left out unless they are needed. It reads blocks
// where those are whole, and else the rows themselves.
func (r *reader) clientRows(g Grain, from, to int64, need clientColumns, each func(*clientLine)) {
	for _, f := range [...]struct {
		words []string
		cell  int
	}{{r.tiers, wTier}, {r.paths, wPath}, {r.agents, wAgent}} {
		if f.words != nil && !slices.Contains(need.words, f.cell) {
			need.words = append(slices.Clone(need.words), f.cell)
		}
	}
	if r.keys != nil {
		r.storedRows(g, from, to, nil, need, each) // by their index
		return
	}
	r.eachPart(r.statements, g, from, to, func(p *blockPart) { r.blockRows(p, need, nil, each) },
		func(from, to int64, limits []int64) { r.storedRows(g, from, to, limits, need, each) })
}

// scattered is how many rows of clients are looked up by themselves where blocks have them.
const scattered = 2000

// wantedRows calls each with the rows of some clients, with what want says of them. It
// reads blocks if the rows are many.
func (r *reader) wantedRows(g Grain, from, to int64, want map[clientKey]int, need clientColumns, each func(of int, l *clientLine)) {
	keys := slices.SortedFunc(maps.Keys(want), func(a, b clientKey) int {
		return cmp.Or(cmp.Compare(a.limit, b.limit), cmp.Compare(a.client, b.client))
	})
	one := r.only(nil).ofAllClients()
	for _, k := range keys {
		one.chosen = append(one.chosen, k.limit)
	}
	one.chosen = slices.Compact(one.chosen)
	lookUp := func(from, to int64, limits []int64) {
		var args [][]any
		for _, k := range keys {
			if limits == nil || slices.Contains(limits, k.limit) {
				args = append(args, []any{int64(g), k.client, k.limit, from, to})
			}
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
	if int64(len(want))*((to-from)/g.Seconds()) <= scattered {
		lookUp(from, to, nil)
		return
	}
	one.eachPart(r.statements, g, from, to, func(p *blockPart) {
		one.blockRows(p, need, func(k clientKey) bool { _, ok := want[k]; return ok }, func(l *clientLine) {
			each(want[clientKey{l.limit, l.client}], l)
		})
	}, lookUp)
}

// blockPart is a part of a range that is read in one way.
type blockPart struct {
	grain    Grain
	from, to int64
	// written: blocks have the rows of all limits but those that are left.
	written bool
	left    []int64
	spans   map[int64]*blockSpan
}

// eachPart calls blocks with the parts of a range of which blocks were written, and rows
// with those of which none were, or some limits are left; in order of time.
func (s *scope) eachPart(in *statements, g Grain, from, to int64, blocks func(*blockPart), rows func(from, to int64, limits []int64)) {
	length := blockSeconds(g)
	spans := blockSpans(in, g, floor(from, length), to)
	for at := floor(from, length); at < to; {
		p := &blockPart{grain: g, written: spans[at].written(), left: s.leftOf(spans[at]), spans: spans}
		end := at + length
		for end < to && spans[end].written() == p.written && slices.Equal(s.leftOf(spans[end]), p.left) {
			end += length
		}
		p.from, p.to = max(at, from), min(end, to)
		if p.written {
			blocks(p)
		}
		if !p.written || len(p.left) > 0 {
			rows(p.from, p.to, p.left)
		}
		at = end
	}
}

// written reports whether blocks were written of a span.
func (s *blockSpan) written() bool { return s != nil && s.state == blockWhole }

// leftOf returns the limits that are meant and whose rows are not all in their block, where
// blocks were written of a span.
func (s *scope) leftOf(b *blockSpan) (left []int64) {
	if !b.written() {
		return nil
	}
	for limit := range b.limits {
		if !b.whole(limit) && (s.all || slices.Contains(s.chosen, limit)) {
			left = append(left, limit)
		}
	}
	slices.Sort(left)
	return left
}

// storedRows calls each with rows as they are stored: of some limits, or of all that are
// meant.
func (r *reader) storedRows(g Grain, from, to int64, limits []int64, need clientColumns, each func(*clientLine)) {
	w := &where{}
	r.clientsOf(w, g, from, to)
	if limits != nil {
		w.and("limit_id IN (" + ids(limits) + ")")
	}
	var line clientLine
	columns, read := need.columns()
	r.query(func(row Row) {
		if read(&line, row); need.merged || line.client != "" {
			each(&line)
		}
	}, `SELECT `+columns+` FROM clients`+r.byClient()+w.text, w.args...)
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

// blockRows calls each with rows of blocks that are whole: of the clients that want
// returns true for, if it is not nil.
func (r *reader) blockRows(p *blockPart, need clientColumns, want func(clientKey) bool, each func(*clientLine)) {
	names := []string{"'" + clientColumn + "'"}
	for _, c := range need.cells {
		names = append(names, "'"+cellColumns[c].name+"'")
	}
	for _, c := range need.words {
		names = append(names, "'"+wordColumns[c]+"'")
	}
	w := rowsOf(p.grain, floor(p.from, blockSeconds(p.grain)), p.to)
	r.limitsOf(w, "limit_id")
	w.and("name IN (" + strings.Join(names, ", ") + ")")
	u := &unpacking{r: r, blockPart: p, need: need, want: want, each: each, bits: map[string][]byte{}}
	at, limit := int64(-1), int64(-1)
	flush := func() error {
		if len(u.bits) == 0 || !p.spans[at].whole(limit) {
			return nil
		}
		return u.rows(at, limit)
	}
	r.queryErr(func(row Row) error {
		if a, l := row.Int(0), row.Int(1); a != at || l != limit {
			if err := flush(); err != nil {
				return err
			}
			at, limit = a, l
			clear(u.bits)
		}
		u.bits[row.Text(2)] = row.Bytes(3)
		return nil
	}, `SELECT at, limit_id, name, bits FROM client_columns`+w.text+` ORDER BY at, limit_id, name`, w.args...)
	if r.err == nil {
		r.err = flush()
	}
}

// unpacking reads rows out of blocks.
type unpacking struct {
	*blockPart
	r     *reader
	need  clientColumns
	want  func(clientKey) bool
	each  func(*clientLine)
	bits  map[string][]byte // the columns of a block
	block clientBlock
	// cells and words are the columns that are not the same in all rows.
	cells, words []int
}

// unpack unpacks the columns, and sets those of a row that are the same in all.
func (u *unpacking) unpack(begins int64, line *clientLine) (err error) {
	b := &u.block
	if err := b.unpackClients(u.bits[clientColumn], begins, u.grain); err != nil {
		return err
	}
	u.cells, u.words = u.cells[:0], u.words[:0]
	for _, c := range u.need.cells {
		if b.cells[c], err = unpackCells(b.cells[c], u.bits[cellColumns[c].name], c, b.at); err != nil {
			return err
		}
		if line.n[c] = b.cells[c][0]; len(b.cells[c]) > 1 {
			u.cells = append(u.cells, c)
		}
	}
	for _, c := range u.need.words {
		if b.words[c], err = unpackWords(b.words[c], u.bits[wordColumns[c]], len(b.at)); err != nil {
			return err
		}
		if line.w[c] = b.words[c][0]; len(b.words[c]) > 1 {
			u.words = append(u.words, c)
		}
	}
	return nil
}

// rows calls each with the rows of the block.
func (u *unpacking) rows(begins, limit int64) error {
	b, line := &u.block, clientLine{limit: limit}
	if err := u.unpack(begins, &line); err != nil {
		return err
	}
	end := 0
	for i, n := range b.rows {
		row := end
		end += n
		line.client = b.clients[i]
		if u.want != nil && !u.want(clientKey{limit, line.client}) || line.client == "" && !u.need.merged {
			continue
		}
		for ; row < end; row++ {
			if line.at = b.at[row]; line.at < u.from || line.at >= u.to {
				continue
			}
			for _, c := range u.cells {
				line.n[c] = b.cells[c][row]
			}
			for _, c := range u.words {
				line.w[c] = b.words[c][row]
			}
			if u.r.means(&line) {
				u.each(&line)
			}
		}
	}
	return nil
}

// means reports whether a row passes the filters that clientsOf has beside limits and keys.
func (a *ask) means(l *clientLine) bool {
	return oneOf(a.tiers, l.w[wTier]) && oneOf(a.agents, l.w[wAgent]) && (a.paths == nil || slices.ContainsFunc(a.paths, func(p string) bool {
		if head, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(l.w[wPath], head)
		}
		return p == l.w[wPath]
	}))
}
