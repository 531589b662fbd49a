package count

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
)

// change is what events do to the rows, put together so that a row is written once.
type change struct {
	rollups   map[rollupRow]int64
	requests  map[requestRow]int64
	latencies map[originRow]*rows.Timing
	responses map[originRow]*rows.Answering
	clients   map[clientRow]*rows.Cells
	seconds   map[secondRow]int64
	sketches  map[sketchRow]*rows.Sketch
	words     map[wordRow]*[4]int64
	arrivals  []arrivalRow
	losses    map[lossRow]*[4]int64
	limits    map[rows.Limit]rows.Span
	kept      rows.Kept
	late      int64
}

// origin is a node and the region that it is in.
type origin struct{ node, region string }

type (
	rollupRow struct {
		grain   rows.Grain
		at      int64
		limit   rows.Limit
		where   origin
		outcome string
	}
	clientRow struct {
		grain  rows.Grain
		at     int64
		limit  rows.Limit
		client string // empty for those that are merged
	}
	// secondRow is a second of a client on a node; what is asked for in it is
	// measured.
	secondRow struct {
		at     int64
		limit  rows.Limit
		client string
		source string
	}
	sketchRow struct {
		grain rows.Grain
		at    int64
		limit rows.Limit
		kind  string
	}
	wordRow struct {
		at         int64
		limit      rows.Limit
		kind, word string
	}
	arrivalRow struct {
		at, n, every, cut int64 // at in µs since the Unix epoch
		limit             rows.Limit
		client, outcome   string
		data              []byte
	}
	lossRow struct {
		source string
		at     int64
	}
	// originRow is a row that is kept by limit, node and region.
	originRow struct {
		grain rows.Grain
		at    int64
		limit rows.Limit
		where origin
	}
)

func (r rollupRow) keyArgs(n *numbers) []any {
	return []any{int64(r.grain), r.at, n.limits[r.limit], r.where.node, r.where.region, r.outcome}
}

func (r clientRow) keyArgs(n *numbers) []any {
	return []any{int64(r.grain), r.at, n.limits[r.limit], r.client}
}

func (r sketchRow) keyArgs(n *numbers) []any {
	return []any{int64(r.grain), r.at, n.limits[r.limit], r.kind}
}

func (r originRow) keyArgs(n *numbers) []any {
	return []any{int64(r.grain), r.at, n.limits[r.limit], r.where.node, r.where.region}
}

func (r wordRow) keyArgs(n *numbers) []any { return []any{r.at, n.limits[r.limit], r.kind, r.word} }

func (r lossRow) keyArgs(n *numbers) []any { return []any{n.sources[r.source], r.at} }

func newChange(k rows.Kept) *change {
	return &change{
		rollups: map[rollupRow]int64{}, requests: map[requestRow]int64{}, latencies: map[originRow]*rows.Timing{},
		responses: map[originRow]*rows.Answering{}, clients: map[clientRow]*rows.Cells{}, seconds: map[secondRow]int64{},
		sketches: map[sketchRow]*rows.Sketch{}, words: map[wordRow]*[4]int64{}, losses: map[lossRow]*[4]int64{},
		limits: map[rows.Limit]rows.Span{}, kept: k,
	}
}

// addEvent takes in an event, and reports whether there are still rows for it.
func (c *change) addEvent(e *event.Event) bool {
	kept := e.Time.Unix() >= c.kept.Seen
	switch {
	case !kept:
	case e.Rollup != nil:
		kept = c.addRollup(e)
	case e.Record != nil:
		kept = c.addRecord(e)
	case e.Loss != nil:
		at := rows.Minute.FindStart(e.Time)
		if kept = at >= c.kept.Counts[rows.Hour] && at <= c.kept.Until; kept {
			c.addLoss(lossRow{e.Source, at}, e.Loss)
		}
	}
	if !kept {
		c.late++
	}
	return kept
}

func (c *change) addRollup(e *event.Event) bool {
	r := e.Rollup
	middle := r.From.Add(r.To.Sub(r.From) / 2)
	l, where, kept := cleanLimit(&r.LimitRef), origin{rows.NodeOfSource(e.Source), rows.CleanText(e.Region)}, false
	for _, g := range rows.Grains {
		at := g.FindStart(middle)
		if at < c.kept.Counts[g] || at > c.kept.Until {
			continue
		}
		kept = true
		c.addRequests(g, at, where, r)
		for outcome, n := range r.Counts {
			c.rollups[rollupRow{g, at, l, where, rows.CleanText(outcome)}] += rows.BoundUint(n)
		}
		row := originRow{g, at, l, where}
		if r.Latency != nil {
			rows.EnsureZero(c.latencies, row).AddLatency(r.Latency)
		}
		if r.Responses != nil {
			rows.EnsureZero(c.responses, row).AddTotals(r.Responses)
		}
	}
	if kept && (r.Rule != "" || r.Limit != "" || len(r.Counts) > 0) { // not of a domain alone
		c.noteLimit(l, middle)
	}
	return kept
}

// noteLimit notes that a limit was met at an instant.
func (c *change) noteLimit(l rows.Limit, t time.Time) {
	at := t.Unix()
	s, ok := c.limits[l]
	if !ok {
		s = rows.Span{First: at, Last: at}
	}
	c.limits[l] = rows.Span{First: min(s.First, at), Last: max(s.Last, at)}
}

func (c *change) addLoss(row lossRow, l *event.Loss) {
	most := rows.EnsureZero(c.losses, row)
	for i, n := range [...]uint64{l.Dropped, l.Discarded, l.Rollups, l.Failed} {
		most[i] = max(most[i], rows.BoundUint(n))
	}
}

func (c *change) addRecord(e *event.Event) bool {
	r := e.Record
	l, key := cleanLimit(&r.LimitRef), ""
	if !r.Merged {
		key = rows.CleanKey(r.Key)
	}
	kept := false
	row := rows.CellsOfRecord(r)
	for _, g := range [...]rows.Grain{rows.Minute, rows.Hour} {
		at := g.FindStart(r.First)
		if at < c.kept.Clients[g] || at > c.kept.Until {
			continue
		}
		kept = true
		rows.EnsureEntry(c.clients, clientRow{g, at, l, key}, rows.NewCells).AddRow(row)
	}
	for _, g := range rows.Grains {
		if at := g.FindStart(r.First); at >= c.kept.Counts[g] && at <= c.kept.Until {
			kept = true
			c.addSketches(g, at, l, key, r)
		}
	}
	if !kept {
		return false
	}
	c.noteLimit(l, r.First)
	if key != "" {
		c.seconds[secondRow{r.First.Unix(), l, key, e.Source}] += row.N[rows.Units]
	}
	if at := rows.Hour.FindStart(r.First); at >= c.kept.Clients[rows.Hour] && r.About != nil {
		c.addWords(at, l, r)
	}
	if len(r.Arrivals) > 0 && r.First.Unix() >= c.kept.Arrivals {
		c.arrivals = append(c.arrivals, arrivalRow{
			at: r.First.UnixMicro(), n: int64(len(r.Arrivals)), every: max(rows.BoundInt(r.Every), 1), cut: rows.CountTrue(r.ArrivalsCut),
			limit: l, client: key, outcome: rows.CleanText(r.Outcome), data: rows.PackArrivals(r.Arrivals),
		})
	}
	return true
}

// addWords counts the words of a record.
func (c *change) addWords(at int64, l rows.Limit, r *event.Record) {
	which := map[string]int{"allowed": 0, "soft": 0, "borrowed": 0, "refused": 1, "shadow_refused": 2, "delayed": 3}
	cell, ok := which[r.Outcome]
	if !ok || r.Count <= 0 {
		return
	}
	for _, w := range [...]struct{ kind, word string }{
		{"path", r.About.Path}, {"tier", r.About.Tier}, {"agent", r.About.Agent},
		{"network", r.About.Network}, {"address", r.About.Address}, {"user", r.About.User},
	} {
		if w.word == "" {
			continue
		}
		rows.EnsureZero(c.words, wordRow{at, l, w.kind, rows.CleanText(w.word)})[cell] += rows.BoundInt(r.Count)
	}
}

// addSketches notes the key among those that were limited, and those of the
// sample.
func (c *change) addSketches(g rows.Grain, at int64, l rows.Limit, key string, r *event.Record) {
	if key == "" || r.Count <= 0 {
		return
	}
	if rows.IsLimiting(r.Outcome) {
		rows.EnsureEntry(c.sketches, sketchRow{g, at, l, rows.SketchLimited}, rows.NewSketch).AddKey(key)
	}
	if r.Outcome == "allowed" && !r.Watched || len(r.Arrivals) > 0 {
		s := rows.EnsureEntry(c.sketches, sketchRow{g, at, l, rows.SketchSampled}, rows.NewSketch)
		s.AddKey(key)
		s.Every = max(s.Every, rows.BoundInt(r.Every))
	}
}

// finishRows puts the busiest seconds into the rows and bounds how many there are.
func (c *change) finishRows(maxClients, maxWords int) {
	for s, units := range c.seconds {
		for _, g := range [...]rows.Grain{rows.Minute, rows.Hour} {
			if row := c.clients[clientRow{g, rows.FloorTo(s.at, g.Seconds()), s.limit, s.client}]; row != nil {
				row.N[rows.Peak] = max(row.N[rows.Peak], units)
			}
		}
	}
	c.cutClients(maxClients)
	c.cutWords(maxWords)
}

// cutClients merges the clients of a limit and a time beyond so many into one row.
func (c *change) cutClients(most int) {
	mergedOf := func(row clientRow) clientRow { return clientRow{row.grain, row.at, row.limit, ""} }
	for _, row := range listBeyond(c.clients, most, mergedOf, func(a, b clientRow) int {
		// Who was limited most, then who asked for most.
		x, y := c.clients[a], c.clients[b]
		return cmp.Or(cmp.Compare(y.CountLimited(), x.CountLimited()), cmp.Compare(y.N[rows.Units], x.N[rows.Units]), strings.Compare(a.client, b.client))
	}) {
		rows.EnsureEntry(c.clients, mergedOf(row), rows.NewCells).AddRow(c.clients[row].AsMerged())
		delete(c.clients, row)
	}
}

// listBeyond returns the rows of each group beyond so many, in an order. A row that is its own
// group is in none.
func listBeyond[R comparable, V any](all map[R]V, most int, group func(R) R, order func(a, b R) int) (out []R) {
	if len(all) <= most {
		return nil
	}
	groups := map[R][]R{}
	for row := range all {
		if at := group(row); at != row {
			groups[at] = append(groups[at], row)
		}
	}
	for _, rows := range groups {
		if len(rows) > most {
			slices.SortFunc(rows, order)
			out = append(out, rows[most:]...)
		}
	}
	return out
}

// cutWords forgets the words of a kind, a limit and an hour beyond so many, those
// with the fewest.
func (c *change) cutWords(most int) {
	ofKind := func(row wordRow) wordRow { return wordRow{row.at, row.limit, row.kind, ""} }
	for _, row := range listBeyond(c.words, most, ofKind, func(a, b wordRow) int {
		x, y := c.words[a], c.words[b]
		return cmp.Or(cmp.Compare(y[1]+y[2]+y[3], x[1]+x[2]+x[3]), cmp.Compare(y[0], x[0]), strings.Compare(a.word, b.word))
	}) {
		delete(c.words, row)
	}
}

// cleanLimit returns the limit of a place.
func cleanLimit(p *event.LimitRef) rows.Limit {
	return rows.Limit{
		Name:      limits.Name{Domain: rows.CleanText(p.Domain), Rule: rows.CleanText(p.Rule), Limit: rows.CleanText(p.Limit)},
		Algorithm: rows.CleanText(p.Algorithm),
		Allowance: rows.BoundInt(p.Allowance), PeriodMS: rows.BoundInt(p.PeriodMS), Burst: rows.BoundInt(p.Burst),
	}
}

// requestRow is the requests of a domain on a node in a time.
type requestRow struct {
	grain   rows.Grain
	at      int64
	domain  string
	where   origin
	outcome string
}

// addRequests takes in the requests that a roll-up tells.
func (c *change) addRequests(g rows.Grain, at int64, where origin, r *event.Rollup) {
	for outcome, n := range r.Requests {
		c.requests[requestRow{g, at, rows.CleanText(r.Domain), where, rows.CleanText(outcome)}] += rows.BoundUint(n)
	}
}

func (r requestRow) keyArgs(*numbers) []any {
	return []any{int64(r.grain), r.at, r.domain, r.where.node, r.where.region, r.outcome}
}
