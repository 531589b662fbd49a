package report

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// findings are clients, and what it takes to tell of them.
type findings struct {
	clients []client
	total   int64 // how many there are, of which clients are some
	since   time.Time
}

// findClients returns the first clients in an order with all that is known of them, those that
// were limited or all, and how many there are. A limit whose numbers changed has its
// clients once.
func findClients(r *query.Reader, order string, most int, limitedOnly bool) (f findings) {
	sums := sumClients(r, order, limitedOnly)
	f.clients = clientsOfSums(r, sums, most)
	if f.total = int64(len(sums)); len(sums) <= most {
		f.total = int64(len(f.clients))
	}
	readRange(r, f.clients)
	if order == "overshoot" {
		slices.SortStableFunc(f.clients, func(a, b client) int { return cmp.Compare(b.overshoot, a.overshoot) })
		if r.Verdicts == nil {
			f.clients = f.clients[:min(len(f.clients), r.Top)] // the week before is read of these alone
		}
	}
	readWeek(r, f.clients)
	f.since = r.ReadSince()
	return f
}

func reportClients(r *query.Reader) *ClientList {
	out := &ClientList{Clients: []Client{}}
	most := r.Top
	again := r.Sort == "overshoot" || r.Verdicts != nil
	if again {
		most = maxScanned(r.Ask)
	}
	found := findClients(r, r.Sort, most, true)
	out.Total = found.total
	for i := range found.clients {
		reported := found.clients[i].reportClient(r.Ask, found.since)
		if isWanted(&reported, r.Verdicts) {
			out.Clients = append(out.Clients, reported)
		}
	}
	if again {
		if found.total > int64(most) {
			r.Missing = append(r.Missing, "looked at are the "+strconv.Itoa(most)+" clients that were refused most: a shorter range has more")
		}
		if r.Verdicts != nil {
			out.Total = int64(len(out.Clients))
		}
		out.Clients = out.Clients[:min(len(out.Clients), r.Top)]
	}
	out.Rest = readRest(r)
	out.Coverage = r.ReadCoverage()
	out.Coverage.Basis = "records"
	return out
}

// scanLimit is how many rows are read, at most, of clients that are judged before some of
// them are chosen.
const scanLimit = 50_000

// maxScanned returns how many clients are judged before some of them are chosen: as many as
// may have so many rows in the range, at least those that are asked for.
func maxScanned(a *query.Ask) int {
	steps := max((min(a.To, a.Now.Unix())-a.From)/a.ClientGrain().Seconds(), 1)
	return min(max(int(scanLimit/steps), a.Top), query.MaxTop)
}

// isWanted reports whether a client has one of the verdicts, if some are asked for.
func isWanted(c *Client, verdicts []string) bool {
	return verdicts == nil || c.Verdict != nil && slices.Contains(verdicts, string(c.Verdict.Class))
}

// readRest returns what the clients did that are merged, nil if none are.
func readRest(r *query.Reader) *Rest {
	w, all := r.WhereMerged(), rows.NewCells()
	var line rows.ClientLine
	columns, read := rows.AllColumns.Columns()
	r.ReadRows(func(row rows.Row) {
		read(&line, row)
		all.AddRow(&line.Cells)
	}, `SELECT `+columns+` FROM clients `+r.Hint+w.Text, w.Args...)
	if all.N[rows.Merged] == 0 {
		return nil
	}
	return &Rest{Rows: all.N[rows.Merged], Totals: totalsOf(all)}
}

// reportKey is what is known of one key.
func reportKey(r *query.Reader) *ClientDetail {
	if len(r.Keys) != 1 {
		r.RecordFailure(&query.ParamError{Name: "key", What: "is missing: one key is meant"})
		return nil
	}
	out := &ClientDetail{Coverage: r.ReadCoverage(), Key: r.Keys[0], Limits: []ClientSeries{}}
	found := findClients(r, "refused", query.MaxTop, false)
	for i := range found.clients {
		c := &found.clients[i]
		out.Limits = append(out.Limits, c.reportSteps(r.Ask, c.reportClient(r.Ask, found.since)))
	}
	return out
}

func (c *client) reportSteps(a *query.Ask, reported Client) ClientSeries {
	s := ClientSeries{Client: reported, At: a.ListSteps(), UnitsAt: make([]int64, a.CountSteps()), Busiest: make([]int64, a.CountSteps())}
	l := newLines(a, rows.NumCells)
	for i := range c.rows {
		row := &c.rows[i]
		for outcome, cell := range rows.OutcomeCells {
			if row.N[cell] != 0 {
				l.addPoint(outcome, row.At, row.N[cell])
			}
		}
		p := a.FindStep(row.At)
		s.UnitsAt[p] += row.N[rows.Units]
		s.Busiest[p] = max(s.Busiest[p], row.N[rows.Peak])
	}
	s.Lines = l.listLines()
	return s
}
