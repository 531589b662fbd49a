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
	labels  labelBook
}

// find returns the first clients in an order with all that is known of them, those that
// were limited or all, and how many there are. A limit whose numbers changed has its
// clients once.
func (r *reader) find(order string, most int, limitedOnly bool) (f findings, err error) {
	sums, err := r.clientSums(order, limitedOnly)
	if err != nil {
		return f, err
	}
	f.clients = r.clientsOfSums(sums, most)
	if f.total = int64(len(sums)); len(sums) <= most {
		f.total = int64(len(f.clients))
	}
	if err := r.load(f.clients); err != nil {
		return f, err
	}
	if f.since, err = r.since(); err != nil {
		return f, err
	}
	f.labels, err = r.labelBook()
	return f, err
}

func reportClients(r *reader) (*ClientList, error) {
	out := &ClientList{Clients: []Client{}}
	most := r.top
	again := r.sort == "overshoot" || r.verdicts != nil || r.labels != nil
	if again {
		most = r.maxScanned()
	}
	found, err := r.find(r.sort, most, true)
	if err != nil {
		return nil, err
	}
	out.Total = found.total
	for i := range found.clients {
		reported := found.clients[i].report(r.ask, found.since, found.labels)
		if r.keeps(&reported) {
			out.Clients = append(out.Clients, reported)
		}
	}
	if again {
		if found.total > int64(most) {
			r.missing = append(r.missing, "looked at are the "+strconv.Itoa(most)+" clients that were refused most: a shorter range has more")
		}
		if r.verdicts != nil || r.labels != nil {
			out.Total = int64(len(out.Clients))
		}
		if r.sort == "overshoot" {
			slices.SortStableFunc(out.Clients, func(a, b Client) int { return cmp.Compare(b.Overshoot, a.Overshoot) })
		}
		out.Clients = out.Clients[:min(len(out.Clients), r.top)]
	}
	if out.Rest, err = readRest(r); err != nil {
		return nil, err
	}
	out.Coverage, err = r.coverage()
	out.Coverage.Basis = "records"
	return out, err
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

// keeps reports whether a client has the verdict and the label that are asked for.
func (a *ask) keeps(c *Client) bool {
	if a.verdicts != nil && (c.Verdict == nil || !slices.Contains(a.verdicts, string(c.Verdict.Class))) {
		return false
	}
	word := "none"
	if c.Label != nil {
		word = c.Label.Label
	}
	return oneOf(a.labels, word)
}

// readRest returns what the clients did that are merged, nil if none are.
func readRest(r *reader) (*Rest, error) {
	w := &where{}
	w.and("grain = ? AND client = '' AND "+anyLimit+" AND at >= ? AND at < ?", int64(r.clientGrain()), r.from, r.to)
	r.limitsOf(w, "limit_id")
	all := none()
	err := query(r.tx, func(row Row) {
		var c cells
		c.scan(row, 0)
		all.add(&c)
	}, `SELECT `+columnList+` FROM clients `+r.hint+w.text, w.args...)
	if err != nil || all.n[cMerged] == 0 {
		return nil, err
	}
	return &Rest{Rows: all.n[cMerged], Totals: all.totals()}, nil
}

// reportClient is what is known of one key.
func reportClient(r *reader) (*ClientDetail, error) {
	if len(r.keys) != 1 {
		return nil, &paramError{"key", "is missing: one key is meant"}
	}
	key := r.keys[0]
	c, err := r.coverage()
	if err != nil {
		return nil, err
	}
	out := &ClientDetail{Coverage: c, Key: key, Limits: []ClientSeries{}}
	found, err := r.find("refused", maxTop, false)
	if err != nil {
		return nil, err
	}
	for i := range found.clients {
		c := &found.clients[i]
		out.Limits = append(out.Limits, c.series(r.ask, c.report(r.ask, found.since, found.labels)))
	}
	out.Labels = found.labels.all(key)
	return out, nil
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
