package analytics

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
)

const (
	// maxFigure bounds a number of an event, so that sums of a quarter of a million of
	// the largest do not overflow.
	maxFigure = 1 << 45
	// maxText bounds a word of an event, in bytes. Keys in plain are at most 116.
	maxText = 256
)

// change is what events do to the rows, put together so that a row is written once.
type change struct {
	rollups   map[rollupRow]int64
	requests  map[requestRow]int64
	latencies map[originRow]*timing
	responses map[originRow]*answering
	clients   map[clientRow]*cells
	seconds   map[secondRow]int64
	sketches  map[sketchRow]*sketch
	words     map[wordRow]*[4]int64
	arrivals  []arrivalRow
	losses    map[lossRow]*[4]int64
	limits    map[Limit]span
	kept      kept
	late      int64
}

// span is from when to when a limit was met, in seconds since the Unix epoch.
type span struct{ first, last int64 }

// origin is a node and the region that it is in.
type origin struct{ node, region string }

type (
	rollupRow struct {
		grain   Grain
		at      int64
		limit   Limit
		where   origin
		outcome string
	}
	clientRow struct {
		grain  Grain
		at     int64
		limit  Limit
		client string // empty for those that are merged
	}
	// secondRow is a second of a client on a node; what is asked for in it is
	// measured.
	secondRow struct {
		at     int64
		limit  Limit
		client string
		source string
	}
	sketchRow struct {
		grain Grain
		at    int64
		limit Limit
		kind  string
	}
	wordRow struct {
		at         int64
		limit      Limit
		kind, word string
	}
	arrivalRow struct {
		at, n, every, cut int64 // at in µs since the Unix epoch
		limit             Limit
		client, outcome   string
		data              []byte
	}
	lossRow struct {
		source string
		at     int64
	}
	// originRow is a row that is kept by limit, node and region.
	originRow struct {
		grain Grain
		at    int64
		limit Limit
		where origin
	}
)

func (r rollupRow) args(n *numbers) []any {
	return []any{int64(r.grain), r.at, n.limits[r.limit], r.where.node, r.where.region, r.outcome}
}

func (r clientRow) args(n *numbers) []any {
	return []any{int64(r.grain), r.at, n.limits[r.limit], r.client}
}

func (r sketchRow) args(n *numbers) []any {
	return []any{int64(r.grain), r.at, n.limits[r.limit], r.kind}
}

func (r originRow) args(n *numbers) []any {
	return []any{int64(r.grain), r.at, n.limits[r.limit], r.where.node, r.where.region}
}

func (r wordRow) args(n *numbers) []any { return []any{r.at, n.limits[r.limit], r.kind, r.word} }

func (r lossRow) args(n *numbers) []any { return []any{n.sources[r.source], r.at} }

// kept says from when on rows are kept, in seconds since the Unix epoch: by grain,
// and to when they may be told of.
type kept struct {
	counts, clients [len(grains) + 1]int64
	arrivals, seen  int64
	until           int64
}

func newChange(k kept) *change {
	return &change{
		rollups: map[rollupRow]int64{}, requests: map[requestRow]int64{}, latencies: map[originRow]*timing{},
		responses: map[originRow]*answering{}, clients: map[clientRow]*cells{}, seconds: map[secondRow]int64{},
		sketches: map[sketchRow]*sketch{}, words: map[wordRow]*[4]int64{}, losses: map[lossRow]*[4]int64{},
		limits: map[Limit]span{}, kept: k,
	}
}

// add takes in an event, and reports whether there are still rows for it.
func (c *change) add(e *event.Event) bool {
	kept := e.Time.Unix() >= c.kept.seen
	switch {
	case !kept:
	case e.Rollup != nil:
		kept = c.addRollup(e)
	case e.Record != nil:
		kept = c.addRecord(e)
	case e.Loss != nil:
		at := Minute.of(e.Time)
		if kept = at >= c.kept.counts[Hour] && at <= c.kept.until; kept {
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
	l, where, kept := limitOf(&r.LimitRef), origin{nodeOf(e.Source), text(e.Region)}, false
	for _, g := range grains {
		at := g.of(middle)
		if at < c.kept.counts[g] || at > c.kept.until {
			continue
		}
		kept = true
		c.addRequests(g, at, where, r)
		for outcome, n := range r.Counts {
			c.rollups[rollupRow{g, at, l, where, text(outcome)}] += figure(n)
		}
		row := originRow{g, at, l, where}
		if r.Latency != nil {
			of(c.latencies, row).add(r.Latency)
		}
		if r.Responses != nil {
			of(c.responses, row).add(r.Responses)
		}
	}
	if kept && (r.Rule != "" || r.Limit != "" || len(r.Counts) > 0) { // not of a domain alone
		c.met(l, middle)
	}
	return kept
}

// met notes that a limit was met at an instant.
func (c *change) met(l Limit, t time.Time) {
	at := t.Unix()
	s, ok := c.limits[l]
	if !ok {
		s = span{at, at}
	}
	c.limits[l] = span{min(s.first, at), max(s.last, at)}
}

func (c *change) addLoss(row lossRow, l *event.Loss) {
	most := of(c.losses, row)
	for i, n := range [...]uint64{l.Dropped, l.Discarded, l.Rollups, l.Failed} {
		most[i] = max(most[i], figure(n))
	}
}

func (c *change) addRecord(e *event.Event) bool {
	r := e.Record
	l, key := limitOf(&r.LimitRef), ""
	if !r.Merged {
		key = keyText(r.Key)
	}
	kept := false
	row := cellsOf(r)
	for _, g := range [...]Grain{Minute, Hour} {
		at := g.of(r.First)
		if at < c.kept.clients[g] || at > c.kept.until {
			continue
		}
		kept = true
		entry(c.clients, clientRow{g, at, l, key}, none).add(row)
	}
	for _, g := range grains {
		if at := g.of(r.First); at >= c.kept.counts[g] && at <= c.kept.until {
			kept = true
			c.addSketches(g, at, l, key, r)
		}
	}
	if !kept {
		return false
	}
	c.met(l, r.First)
	if key != "" {
		c.seconds[secondRow{r.First.Unix(), l, key, e.Source}] += row.n[cUnits]
	}
	if at := Hour.of(r.First); at >= c.kept.clients[Hour] && r.About != nil {
		c.addWords(at, l, r)
	}
	if len(r.Arrivals) > 0 && r.First.Unix() >= c.kept.arrivals {
		c.arrivals = append(c.arrivals, arrivalRow{
			at: r.First.UnixMicro(), n: int64(len(r.Arrivals)), every: max(figureOf(r.Every), 1), cut: bitOf(r.ArrivalsCut),
			limit: l, client: key, outcome: text(r.Outcome), data: packArrivals(r.Arrivals),
		})
	}
	return true
}

// cellsOf returns a record as a row of its client.
func cellsOf(r *event.Record) *cells {
	c := none()
	cell, known := outcomeCells[r.Outcome]
	if !known {
		cell = cOther
	}
	c.n[cell] = figureOf(r.Count)
	if r.Count > 0 {
		c.n[cRecords], c.n[cSeconds], c.n[cLeast] = 1, 1, min(max(r.Least, 0), maxFigure)
		c.n[cUnits] = figureOf(r.Cost)
		// An outcome that is counted beside another is of the same requests.
		if cell == cEstimated || cell == cDegradedCount {
			c.n[cUnits] = 0
		}
	}
	c.n[cFirst], c.n[cLast] = r.First.UnixMicro(), r.Last.UnixMicro()
	if limits(r.Outcome) {
		c.n[cDecisive] = figureOf(r.Decisive)
	}
	c.n[cEarly] = figureOf(r.Early)
	if c.n[cRetry] = figureOf(r.RetryMS); r.RetryMS < 0 {
		c.n[cRetry] = retryNever
	}
	c.n[cDelay] = figureOf(r.DelayMS)
	c.n[cUnhashed], c.n[cWithout] = bitOf(r.Unhashed), bitOf(r.Degraded)
	if r.Merged {
		c.n[cMerged] = 1
	} else if r.Outcome == "allowed" {
		if c.n[cWatched] = bitOf(r.Watched); !r.Watched {
			c.n[cEvery] = max(figureOf(r.Every), 1)
		}
	}
	c.w[wSource] = text(r.Source)
	if r.About != nil && !r.Merged {
		c.about(r.About)
	}
	if a := r.Answers; a != nil {
		c.n[cAnswers], c.n[cOK], c.n[cRedirect], c.n[cDenied] = figureOf(a.Count), figureOf(a.OK), figureOf(a.Redirect), figureOf(a.Denied)
		c.n[cClientError], c.n[cServerError] = figureOf(a.ClientError), figureOf(a.ServerError)
		c.n[cTotalMS], c.n[cLongestMS] = figureOf(a.TotalMS), figureOf(a.LongestMS)
	}
	return c
}

func (c *cells) about(a *event.About) {
	for i, w := range [numWords]string{wAddress: a.Address, wNetwork: a.Network, wMethod: a.Method, wHost: a.Host, wPath: a.Path,
		wUser: a.User, wTier: a.Tier, wAgent: a.Agent} {
		if w != "" {
			c.w[i] = text(w)
		}
	}
	c.n[cUsers], c.n[cAgents], c.n[cPaths], c.n[cAddresses] = figureOf(a.Users), figureOf(a.Agents), figureOf(a.Paths), figureOf(a.Addresses)
	c.n[cUserBits], c.n[cAgentBits], c.n[cPathBits], c.n[cAddressBits] = bit(a.User), bit(a.Agent), bit(a.Path), bit(a.Address)
}

// limits reports whether an outcome limits a client.
func limits(outcome string) bool {
	return outcome == "refused" || outcome == "delayed" || outcome == "shadow_refused"
}

// addWords counts the words of a record.
func (c *change) addWords(at int64, l Limit, r *event.Record) {
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
		of(c.words, wordRow{at, l, w.kind, text(w.word)})[cell] += figureOf(r.Count)
	}
}

// addSketches notes the key among those that were limited, and those of the
// sample.
func (c *change) addSketches(g Grain, at int64, l Limit, key string, r *event.Record) {
	if key == "" || r.Count <= 0 {
		return
	}
	if limits(r.Outcome) {
		entry(c.sketches, sketchRow{g, at, l, sketchLimited}, newSketch).add(key)
	}
	if r.Outcome == "allowed" && !r.Watched || len(r.Arrivals) > 0 {
		s := entry(c.sketches, sketchRow{g, at, l, sketchSampled}, newSketch)
		s.add(key)
		s.every = max(s.every, figureOf(r.Every))
	}
}

// finish puts the busiest seconds into the rows and bounds how many there are.
func (c *change) finish(maxClients, maxWords int) {
	for s, units := range c.seconds {
		for _, g := range [...]Grain{Minute, Hour} {
			if row := c.clients[clientRow{g, floor(s.at, g.Seconds()), s.limit, s.client}]; row != nil {
				row.n[cPeak] = max(row.n[cPeak], units)
			}
		}
	}
	c.cut(maxClients)
	c.cutWords(maxWords)
}

// cut merges the clients of a limit and a time beyond so many into one row.
func (c *change) cut(most int) {
	mergedOf := func(row clientRow) clientRow { return clientRow{row.grain, row.at, row.limit, ""} }
	for _, row := range beyond(c.clients, most, mergedOf, func(a, b clientRow) int {
		// Who was limited most, then who asked for most.
		x, y := c.clients[a], c.clients[b]
		return cmp.Or(cmp.Compare(y.limited(), x.limited()), cmp.Compare(y.n[cUnits], x.n[cUnits]), strings.Compare(a.client, b.client))
	}) {
		entry(c.clients, mergedOf(row), none).add(c.clients[row].merged())
		delete(c.clients, row)
	}
}

// beyond returns the rows of each group beyond so many, in an order. A row that is its own
// group is in none.
func beyond[R comparable, V any](all map[R]V, most int, group func(R) R, order func(a, b R) int) (out []R) {
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
	for _, row := range beyond(c.words, most, ofKind, func(a, b wordRow) int {
		x, y := c.words[a], c.words[b]
		return cmp.Or(cmp.Compare(y[1]+y[2]+y[3], x[1]+x[2]+x[3]), cmp.Compare(y[0], x[0]), strings.Compare(a.word, b.word))
	}) {
		delete(c.words, row)
	}
}

// limitOf returns the limit of a place.
func limitOf(p *event.LimitRef) Limit {
	return Limit{
		Domain: text(p.Domain), Rule: text(p.Rule), Limit: text(p.Limit), Algorithm: text(p.Algorithm),
		Allowance: figureOf(p.Allowance), PeriodMS: figureOf(p.PeriodMS), Burst: figureOf(p.Burst),
	}
}

// nodeOf returns the node of a source: all but the number that it drew.
func nodeOf(source string) string {
	if i := strings.LastIndexByte(source, '/'); i > 0 {
		source = source[:i]
	}
	return text(source)
}
