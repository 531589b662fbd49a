package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
)

// client is a key under a limit with its rows.
type client struct {
	name  query.Name
	limit rows.Limit // the numbers of the newest row
	key   string
	// rows are those of the range in order of time; total is all of them.
	rows  []rows.ClientLine
	total rows.Cells
	// peakMinute is what was asked for in the busiest minute, overshoot the peak as a share
	// of the limit.
	peakMinute int64
	overshoot  float64
	// hours are the units of the hours of the week before the range, now of those in
	// it.
	hours, now []clientHour
	firstSeen  int64 // µs since the Unix epoch
}

type clientHour struct{ at, units int64 }

// wantedOf returns of which of some clients rows are, whatever numbers their limits had.
func wantedOf(r *query.Reader, clients []client) map[rows.ClientKey]int {
	want := map[rows.ClientKey]int{}
	for i := range clients {
		for _, id := range r.ListVersions(clients[i].name) {
			want[rows.ClientKey{Limit: id, Client: clients[i].key}] = i
		}
	}
	return want
}

// loadClients reads the rows of clients.
func loadClients(r *query.Reader, clients []client) {
	readRange(r, clients)
	readWeek(r, clients)
}

// readRange reads the rows of clients in the range.
func readRange(r *query.Reader, clients []client) {
	if len(clients) == 0 {
		return
	}
	r.EachWantedRow(r.ClientGrain(), r.From, r.To, wantedOf(r, clients), rows.AllColumns, func(of int, l *rows.ClientLine) {
		clients[of].rows = append(clients[of].rows, *l)
	})
	for i := range clients {
		clients[i].sumRows(r)
	}
}

// readWeek reads what the clients, of which the range is read, did in the week before it, and
// when each was seen first.
func readWeek(r *query.Reader, clients []client) {
	if len(clients) == 0 {
		return
	}
	hour := rows.FloorTo(r.From, 3600)
	addHour := func(c *client, l *rows.ClientLine) {
		if h := (clientHour{l.At, l.N[rows.Units]}); h.at < hour {
			c.hours = append(c.hours, h)
		} else {
			c.now = append(c.now, h)
		}
	}
	// Where the rows of the range are by the hour, its own hours are among them.
	end := r.To
	if r.ClientGrain() == rows.Hour {
		end = r.From
		for i := range clients {
			for k := range clients[i].rows {
				addHour(&clients[i], &clients[i].rows[k])
			}
		}
	}
	want := wantedOf(r, clients)
	r.EachWantedRow(rows.Hour, hour-int64(verdict.Week.Seconds()), end, want, rows.ClientColumns{Cells: []int{rows.Units}}, func(of int, l *rows.ClientLine) {
		addHour(&clients[of], l)
	})
	first := make([][]any, 0, len(want))
	for k := range want {
		first = append(first, []any{int64(rows.Hour), k.Client, k.Limit})
	}
	for i := range clients {
		clients[i].firstSeen = math.MaxInt64
	}
	r.EachRow(`SELECT limit_id, client, first_us FROM clients `+r.Hint+` WHERE grain = $1 AND client = $2 AND limit_id = $3 ORDER BY at LIMIT 1`,
		first, func(_ int, row rows.Row) error {
			if at := row.Int(2); at > 0 {
				c := &clients[want[rows.ClientKey{Limit: row.Int(0), Client: row.Text(1)}]]
				c.firstSeen = min(c.firstSeen, at)
			}
			return nil
		})
	for i := range clients {
		c := &clients[i]
		slices.SortStableFunc(c.hours, func(a, b clientHour) int { return cmp.Compare(a.at, b.at) })
		c.firstSeen = min(c.firstSeen, c.total.N[rows.First])
	}
}

// sumRows puts the rows of a client in order and together: those of the numbers that its limit
// had first come first, since of two that are as new the later one counts.
func (c *client) sumRows(r *query.Reader) {
	c.total = *rows.NewCells()
	g, minute := r.ClientGrain(), rows.Units
	if g == rows.Hour {
		minute = rows.PeakMinute
	}
	versions := r.ListVersions(c.name)
	slices.SortFunc(c.rows, func(a, b rows.ClientLine) int {
		return cmp.Or(cmp.Compare(slices.Index(versions, a.Limit), slices.Index(versions, b.Limit)), cmp.Compare(a.At, b.At))
	})
	for i := range c.rows {
		row := &c.rows[i]
		if row.N[rows.Last] >= c.total.N[rows.Last] {
			c.limit = r.ByID[row.Limit]
		}
		c.total.AddRow(&row.Cells)
		c.peakMinute = max(c.peakMinute, row.N[minute])
	}
	slices.SortStableFunc(c.rows, func(a, b rows.ClientLine) int { return cmp.Compare(a.At, b.At) })
	c.overshoot = c.measureOvershoot(g)
}

// reportClient returns the client as it is answered.
func (c *client) reportClient(a *query.Ask, kept time.Time) Client {
	t := &c.total
	out := Client{
		Limit: c.limit, Key: c.key, Unhashed: t.N[rows.Unhashed] != 0, Totals: totalsOf(t),
		AllowedKnown: t.N[rows.Every] > 0 || t.N[rows.Watched] != 0, Sampled: t.N[rows.Every] > 0,
		Decisive: t.N[rows.Decisive], Units: t.N[rows.Units], First: timeOfMicros(t.N[rows.First]), Last: timeOfMicros(t.N[rows.Last]), FirstSeen: timeOfMicros(c.firstSeen),
		PeakSecond: t.N[rows.Peak], Early: t.N[rows.Early], RetryMS: t.N[rows.Retry], DelayMS: t.N[rows.Delay], Least: t.N[rows.Least],
		Degraded: t.N[rows.Without] > 0, Source: t.Words[rows.Source], Windows: int64(len(c.rows)),
	}
	if out.RetryMS == rows.RetryNever {
		out.RetryMS = -1
	}
	if out.Least == rows.NoLeast {
		out.Least = 0
	}
	for i := range c.rows {
		row := &c.rows[i]
		if row.CountLimited() > 0 {
			out.WindowsOver++
		}
	}
	out.PeakMinute, out.Overshoot = c.peakMinute, c.overshoot
	out.Obeyed = shareObeyed(t)
	out.About, out.Answers = t.ReadAbout(), t.ReadAnswers()
	out.UsualHours = int64(len(c.hours))
	out.Usual = percentile95(c.hours)
	for _, h := range c.now {
		out.Now = max(out.Now, h.units)
	}
	if c.total.CountLimited() > 0 && c.limit.Algorithm != "" { // a ban and a deny list judged already
		v := verdict.Classify(c.evidence(a, kept))
		out.Verdict = &v
	}
	return out
}

// shareObeyed returns how many of those who could come too early did not.
func shareObeyed(c *rows.Cells) float64 {
	// Everything that came after a first refusal could.
	could := c.N[rows.Refused] + c.N[rows.Allowed] + c.N[rows.Soft] + c.N[rows.Borrowed] - 1
	if c.N[rows.Refused] == 0 || could <= 0 {
		return 1
	}
	return roundMillionths(max(1-float64(c.N[rows.Early])/float64(could), 0))
}

// measureOvershoot returns the peak of a client as a share of its limit.
func (c *client) measureOvershoot(g rows.Grain) float64 {
	most := overshoot(c.limit, c.peakMinute, 60, c.total.N[rows.Peak])
	if c.limit.PeriodMS <= 60_000 {
		return most
	}
	period := rows.CeilTo(c.limit.PeriodMS, g.Seconds()*1000) / 1000
	windows := map[int64]int64{}
	for i := range c.rows {
		windows[rows.FloorTo(c.rows[i].At, period)] += c.rows[i].N[rows.Units]
	}
	for _, units := range windows {
		most = max(most, shareUsed(c.limit, units, period*1000))
	}
	return most
}

// evidence returns what a verdict is made of.
func (c *client) evidence(a *query.Ask, kept time.Time) *verdict.Evidence {
	g := verdict.NewGatherer(kindOfRule(c.name.Rule), c.limit.Allowance, time.Duration(c.limit.PeriodMS)*time.Millisecond,
		time.Unix(a.From, 0).UTC(), time.Unix(a.To, 0).UTC(), kept)
	g.InProgress(a.Now)
	for _, h := range c.hours {
		g.Add(&verdict.Row{At: time.Unix(h.at, 0).UTC(), Span: time.Hour, Cost: h.units})
	}
	span := time.Duration(a.ClientGrain().Seconds()) * time.Second
	for i := range c.rows {
		g.Add(verdictRow(&c.rows[i], span))
	}
	return g.Evidence()
}

// verdictRow returns a step as verdicts read it.
func verdictRow(s *rows.ClientLine, span time.Duration) *verdict.Row {
	n, w := &s.N, &s.Words
	return &verdict.Row{
		At: time.Unix(s.At, 0).UTC(), Span: span,
		Allowed: n[rows.Allowed] + n[rows.Soft] + n[rows.Borrowed] + n[rows.Delayed], Refused: n[rows.Refused] + n[rows.Shadow], Shadowed: n[rows.Shadow],
		Cost: n[rows.Units], Early: n[rows.Early], Busiest: n[rows.Peak], Sampled: n[rows.Every] > 0,
		Identified: w[rows.Agent] != "" || w[rows.Path] != "" || w[rows.Address] != "" || w[rows.User] != "" || n[rows.Agents] > 0,
		Users:      rows.CountDifferent(n[rows.Users], n[rows.UserBits]), Agents: rows.CountDifferent(n[rows.Agents], n[rows.AgentBits]),
		Paths: rows.CountDifferent(n[rows.Paths], n[rows.PathBits]), Addresses: rows.CountDifferent(n[rows.Addresses], n[rows.AddressBits]),
		User: w[rows.User], Path: w[rows.Path], Address: w[rows.Address], Agent: w[rows.Agent],
		Answers: verdict.Answers{Count: n[rows.Answers], OK: n[rows.OK], Redirect: n[rows.Redirect], Denied: n[rows.Denied]},
	}
}

// kindOfRule tells from the words of a rule what its keys name.
func kindOfRule(rule string) verdict.Kind {
	address := false
	for _, word := range strings.FieldsFunc(strings.ToLower(rule), func(c rune) bool {
		return (c < 'a' || c > 'z') && c != '_' && c != '-'
	}) {
		switch strings.Trim(strings.ReplaceAll(word, "-", "_"), "_") {
		case "user", "user_id", "username", "userid", "account", "account_id", "tenant", "tenant_id", "client_id", "api_key", "apikey", "key", "token", "sub", "jwt", "customer", "consumer":
			return verdict.Account
		case "remote_address", "ip", "client_ip", "address", "masked_remote_address", "network", "source_address":
			address = true
		}
	}
	if address {
		return verdict.Address
	}
	return verdict.Unknown
}

// percentile95 returns what 95 in 100 hours do not exceed.
func percentile95(hours []clientHour) int64 {
	units := make([]int64, len(hours))
	for i, h := range hours {
		units[i] = h.units
	}
	slices.Sort(units)
	return quantileOf(units, 95)
}

func timeOfMicros(us int64) time.Time {
	if us == math.MaxInt64 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// overshoot returns what was asked for at most, in a window and in a second, as a
// share of what the limit lets through in that time.
func overshoot(l rows.Limit, units, windowS, second int64) float64 {
	return max(shareUsed(l, units, windowS*1000), shareUsed(l, second, 1000))
}

// shareUsed returns units asked for in a window as a share of what a limit lets
// through in it: its rate, at least what passes at once.
func shareUsed(l rows.Limit, units, windowMS int64) float64 {
	if l.PeriodMS <= 0 || l.Allowance <= 0 {
		return 0
	}
	through := max(float64(l.Allowance)*float64(windowMS)/float64(l.PeriodMS), float64(max(l.Burst, l.Allowance)))
	return roundMillionths(float64(units) / through)
}
