package analytics

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// findings are clients, and what it takes to tell of them.
type findings struct {
	clients []client
	total   int64 // how many there are, of which clients are some
	since   time.Time
}

// find returns the first clients in an order with all that is known of them, those that
// were limited or all, and how many there are. A limit whose numbers changed has its
// clients once.
func (r *reader) find(order string, most int, limitedOnly bool) (f findings) {
	sums := r.clientSums(order, limitedOnly)
	f.clients = r.clientsOfSums(sums, most)
	if f.total = int64(len(sums)); len(sums) <= most {
		f.total = int64(len(f.clients))
	}
	r.load(f.clients)
	f.since = r.since()
	return f
}

func reportClients(r *reader) *ClientList {
	out := &ClientList{Clients: []Client{}}
	most := r.top
	again := r.sort == "overshoot" || r.verdicts != nil
	if again {
		most = r.maxScanned()
	}
	found := r.find(r.sort, most, true)
	out.Total = found.total
	for i := range found.clients {
		reported := found.clients[i].report(r.ask, found.since)
		if r.keeps(&reported) {
			out.Clients = append(out.Clients, reported)
		}
	}
	if again {
		if found.total > int64(most) {
			r.missing = append(r.missing, "looked at are the "+strconv.Itoa(most)+" clients that were refused most: a shorter range has more")
		}
		if r.verdicts != nil {
			out.Total = int64(len(out.Clients))
		}
		if r.sort == "overshoot" {
			slices.SortStableFunc(out.Clients, func(a, b Client) int { return cmp.Compare(b.Overshoot, a.Overshoot) })
		}
		out.Clients = out.Clients[:min(len(out.Clients), r.top)]
	}
	out.Rest = readRest(r)
	out.Coverage = r.coverage()
	out.Coverage.Basis = "records"
	return out
}

// scanLimit is how many rows are read, at most, of clients that are judged before some of
// them are chosen.
const scanLimit = 50_000

// maxScanned returns how many clients are judged before some of them are chosen: as many as
// may have so many rows in the range, at least those that are asked for.
func (a *ask) maxScanned() int {
	steps := max((min(a.to, a.now.Unix())-a.from)/a.clientGrain().Seconds(), 1)
	return min(max(int(scanLimit/steps), a.top), maxTop)
}

// keeps reports whether a client has the verdict that is asked for.
func (a *ask) keeps(c *Client) bool {
	return a.verdicts == nil || c.Verdict != nil && slices.Contains(a.verdicts, string(c.Verdict.Class))
}

// readRest returns what the clients did that are merged, nil if none are.
func readRest(r *reader) *Rest {
	w, all := mergedClients(r), none()
	var line clientLine
	columns, read := allColumns.columns()
	r.query(func(row Row) {
		read(&line, row)
		all.add(&line.cells)
	}, `SELECT `+columns+` FROM clients `+r.hint+w.text, w.args...)
	if all.n[cMerged] == 0 {
		return nil
	}
	return &Rest{Rows: all.n[cMerged], Totals: all.totals()}
}

// reportClient is what is known of one key.
func reportClient(r *reader) *ClientDetail {
	if len(r.keys) != 1 {
		r.fail(&paramError{"key", "is missing: one key is meant"})
		return nil
	}
	out := &ClientDetail{Coverage: r.coverage(), Key: r.keys[0], Limits: []ClientSeries{}}
	found := r.find("refused", maxTop, false)
	for i := range found.clients {
		c := &found.clients[i]
		out.Limits = append(out.Limits, c.series(r.ask, c.report(r.ask, found.since)))
	}
	return out
}

func (c *client) series(a *ask, reported Client) ClientSeries {
	s := ClientSeries{Client: reported, At: a.at(), UnitsAt: make([]int64, a.points()), Busiest: make([]int64, a.points())}
	l := a.lines(numCells)
	for i := range c.rows {
		row := &c.rows[i]
		for outcome, cell := range outcomeCells {
			if row.n[cell] != 0 {
				l.add(outcome, row.at, row.n[cell])
			}
		}
		p := a.point(row.at)
		s.UnitsAt[p] += row.n[cUnits]
		s.Busiest[p] = max(s.Busiest[p], row.n[cPeak])
	}
	s.Lines = l.list()
	return s
}
