package analytics

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/insight/event"
)

// client is a key under a limit with its rows.
type client struct {
	name  name
	limit Limit // the numbers of the newest row
	key   string
	// rows are those of the range in order of time; total is all of them.
	rows  []clientLine
	total cells
	// hours are the units of the hours of the week before the range, now of those in
	// it.
	hours, now []clientHour
	firstSeen  int64 // µs since the Unix epoch
}

type clientHour struct{ at, units int64 }

// load reads the rows of clients.
func (r *reader) load(clients []client) {
	want := map[clientKey]int{}
	var first [][]any
	for i := range clients {
		c := &clients[i]
		c.total, c.firstSeen = *none(), math.MaxInt64
		for _, id := range r.versions(c.name) {
			want[clientKey{id, c.key}] = i
			first = append(first, []any{int64(Hour), c.key, id})
		}
	}
	if len(want) == 0 {
		return
	}
	grain, hour := r.clientGrain(), floor(r.from, 3600)
	addHour := func(c *client, h clientHour) {
		if h.at < hour {
			c.hours = append(c.hours, h)
		} else {
			c.now = append(c.now, h)
		}
	}
	// The hours before end are read by themselves. Where the rows of the range are by the
	// hour, its own hours are among them.
	end := r.to
	if grain == Hour {
		end = r.from
	}
	r.wantedRows(grain, r.from, r.to, want, allColumns, func(of int, l *clientLine) {
		c := &clients[of]
		c.rows = append(c.rows, *l)
		if l.at >= end {
			addHour(c, clientHour{l.at, l.n[cUnits]})
		}
	})
	for i := range clients {
		clients[i].sumUp(&r.scope)
	}
	r.wantedRows(Hour, hour-int64(verdict.Week.Seconds()), end, want, clientColumns{cells: []int{cUnits}}, func(of int, l *clientLine) {
		addHour(&clients[of], clientHour{l.at, l.n[cUnits]})
	})
	r.each(`SELECT limit_id, client, first_us FROM clients `+r.hint+` WHERE grain = $1 AND client = $2 AND limit_id = $3 ORDER BY at LIMIT 1`,
		first, func(_ int, row Row) error {
			if at := row.Int(2); at > 0 {
				c := &clients[want[clientKey{row.Int(0), row.Text(1)}]]
				c.firstSeen = min(c.firstSeen, at)
			}
			return nil
		})
	for i := range clients {
		c := &clients[i]
		slices.SortStableFunc(c.hours, func(a, b clientHour) int { return cmp.Compare(a.at, b.at) })
		c.firstSeen = min(c.firstSeen, c.total.n[cFirst])
	}
}

// sumUp puts the rows of a client in order and together: those of the numbers that its limit
// had first come first, since of two that are as new the later one counts.
func (c *client) sumUp(s *scope) {
	versions := s.versions(c.name)
	slices.SortFunc(c.rows, func(a, b clientLine) int {
		return cmp.Or(cmp.Compare(slices.Index(versions, a.limit), slices.Index(versions, b.limit)), cmp.Compare(a.at, b.at))
	})
	for i := range c.rows {
		row := &c.rows[i]
		if row.n[cLast] >= c.total.n[cLast] {
			c.limit = s.byID[row.limit]
		}
		c.total.add(&row.cells)
	}
	slices.SortStableFunc(c.rows, func(a, b clientLine) int { return cmp.Compare(a.at, b.at) })
}

// report returns the client as it is answered.
func (c *client) report(a *ask, kept time.Time) Client {
	t := &c.total
	out := Client{
		Limit: c.limit, Key: c.key, Unhashed: t.n[cUnhashed] != 0, Totals: t.totals(),
		AllowedKnown: t.n[cEvery] > 0 || t.n[cWatched] != 0, Sampled: t.n[cEvery] > 0,
		Decisive: t.n[cDecisive], Units: t.n[cUnits], First: timeOf(t.n[cFirst]), Last: timeOf(t.n[cLast]), FirstSeen: timeOf(c.firstSeen),
		PeakSecond: t.n[cPeak], Early: t.n[cEarly], RetryMS: t.n[cRetry], DelayMS: t.n[cDelay], Least: t.n[cLeast],
		Degraded: t.n[cWithout] > 0, Source: t.w[wSource], Windows: int64(len(c.rows)),
	}
	if out.RetryMS == retryNever {
		out.RetryMS = -1
	}
	if out.Least == noLeast {
		out.Least = 0
	}
	for i := range c.rows {
		row := &c.rows[i]
		if row.limited() > 0 {
			out.WindowsOver++
		}
		minute := row.n[cUnits]
		if a.clientGrain() == Hour {
			minute = row.n[cPeakMinute]
		}
		out.PeakMinute = max(out.PeakMinute, minute)
	}
	out.Overshoot = c.overshoot(out.PeakMinute, a.clientGrain())
	out.Obeyed = obeyed(t)
	out.About, out.Answers = t.aboutOf(), t.answersOf()
	out.UsualHours = int64(len(c.hours))
	out.Usual = percentile95(c.hours)
	for _, h := range c.now {
		out.Now = max(out.Now, h.units)
	}
	if c.total.limited() > 0 && c.limit.Algorithm != "" { // a ban and a deny list judged already
		v := verdict.Classify(c.evidence(a, kept))
		out.Verdict = &v
	}
	return out
}

// obeyed returns how many of those who could come too early did not.
func obeyed(c *cells) float64 {
	// Everything that came after a first refusal could.
	could := c.n[cRefused] + c.n[cAllowed] + c.n[cSoft] + c.n[cBorrowed] - 1
	if c.n[cRefused] == 0 || could <= 0 {
		return 1
	}
	return round(max(1-float64(c.n[cEarly])/float64(could), 0))
}

// overshoot returns the peak of a client as a share of its limit.
func (c *client) overshoot(minute int64, g Grain) float64 {
	most := overshoot(c.limit, minute, 60, c.total.n[cPeak])
	if c.limit.PeriodMS <= 60_000 {
		return most
	}
	period := ceil(c.limit.PeriodMS, g.Seconds()*1000) / 1000
	windows := map[int64]int64{}
	for i := range c.rows {
		windows[floor(c.rows[i].at, period)] += c.rows[i].n[cUnits]
	}
	for _, units := range windows {
		most = max(most, usage(c.limit, units, period*1000))
	}
	return most
}

// evidence returns what a verdict is made of.
func (c *client) evidence(a *ask, kept time.Time) *verdict.Evidence {
	g := verdict.NewGatherer(kindOf(c.name.rule), c.limit.Allowance, time.Duration(c.limit.PeriodMS)*time.Millisecond,
		time.Unix(a.from, 0).UTC(), time.Unix(a.to, 0).UTC(), kept)
	g.InProgress(a.now)
	for _, h := range c.hours {
		g.Add(&verdict.Row{At: time.Unix(h.at, 0).UTC(), Span: time.Hour, Cost: h.units})
	}
	span := time.Duration(a.clientGrain().Seconds()) * time.Second
	for i := range c.rows {
		g.Add(c.rows[i].row(span))
	}
	return g.Evidence()
}

// row returns a step as verdicts read it.
func (s *clientLine) row(span time.Duration) *verdict.Row {
	n, w := &s.n, &s.w
	return &verdict.Row{
		At: time.Unix(s.at, 0).UTC(), Span: span,
		Allowed: n[cAllowed] + n[cSoft] + n[cBorrowed] + n[cDelayed], Refused: n[cRefused] + n[cShadow], Shadowed: n[cShadow],
		Cost: n[cUnits], Early: n[cEarly], Busiest: n[cPeak], Sampled: n[cEvery] > 0,
		Identified: w[wAgent] != "" || w[wPath] != "" || w[wAddress] != "" || w[wUser] != "" || n[cAgents] > 0,
		Users:      different(n[cUsers], n[cUserBits]), Agents: different(n[cAgents], n[cAgentBits]),
		Paths: different(n[cPaths], n[cPathBits]), Addresses: different(n[cAddresses], n[cAddressBits]),
		User: w[wUser], Path: w[wPath], Address: w[wAddress], Agent: w[wAgent],
		Answers: verdict.Answers{Count: n[cAnswers], OK: n[cOK], Redirect: n[cRedirect], Denied: n[cDenied]},
	}
}

// kindOf tells from the words of a rule what its keys name.
func kindOf(rule string) verdict.Kind {
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

// different returns how many different words there were: the most in one record,
// or what their sketch says.
func different(most, bits int64) int64 { return max(most, estimate(bits)) }

// aboutOf returns what the last request told, nil if nothing.
func (c *cells) aboutOf() *event.About {
	a := event.About{
		Address: c.w[wAddress], Network: c.w[wNetwork], Method: c.w[wMethod], Host: c.w[wHost], Path: c.w[wPath],
		User: c.w[wUser], Tier: c.w[wTier], Agent: c.w[wAgent],
		Users: different(c.n[cUsers], c.n[cUserBits]), Agents: different(c.n[cAgents], c.n[cAgentBits]),
		Paths: different(c.n[cPaths], c.n[cPathBits]), Addresses: different(c.n[cAddresses], c.n[cAddressBits]),
	}
	if a == (event.About{}) {
		return nil
	}
	return &a
}

// answersOf returns how requests were answered, nil if that is not known.
func (c *cells) answersOf() *event.Answers {
	if c.n[cAnswers] == 0 {
		return nil
	}
	return &event.Answers{Count: c.n[cAnswers], OK: c.n[cOK], Redirect: c.n[cRedirect], Denied: c.n[cDenied],
		ClientError: c.n[cClientError], ServerError: c.n[cServerError], TotalMS: c.n[cTotalMS], LongestMS: c.n[cLongestMS]}
}

// percentile95 returns what 95 in 100 hours do not exceed.
func percentile95(hours []clientHour) int64 {
	units := make([]int64, len(hours))
	for i, h := range hours {
		units[i] = h.units
	}
	slices.Sort(units)
	return quantile(units, 95)
}

func timeOf(us int64) time.Time {
	if us == math.MaxInt64 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// overshoot returns what was asked for at most, in a window and in a second, as a
// share of what the limit lets through in that time.
func overshoot(l Limit, units, windowS, second int64) float64 {
	return max(usage(l, units, windowS*1000), usage(l, second, 1000))
}

// usage returns units asked for in a window as a share of what a limit lets
// through in it: its rate, at least what passes at once.
func usage(l Limit, units, windowMS int64) float64 {
	if l.PeriodMS <= 0 || l.Allowance <= 0 {
		return 0
	}
	through := max(float64(l.Allowance)*float64(windowMS)/float64(l.PeriodMS), float64(max(l.Burst, l.Allowance)))
	return round(float64(units) / through)
}
