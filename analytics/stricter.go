package analytics

import (
	"strconv"

	"github.com/weirlimit/weir/analytics/advice"
)

const (
	// maxStricter is for how many limits the stricter one is looked for.
	maxStricter = 20
	// maxBeside is how many rows of clients are looked at for one.
	maxBeside = 100_000
)

// stricter finds, for limits that refuse and are never the answer, the limit that
// is.
func (b *ruleBook) stricter() error {
	n := 0
	for _, e := range b.list {
		if e.shadow || e.figures.Counts["refused"] == 0 || e.figures.Decisive > 0 {
			continue
		}
		if n++; n > maxStricter {
			b.r.missing = append(b.r.missing, "which limit is stricter is looked for of "+strconv.Itoa(maxStricter)+" limits that are never decisive")
			return nil
		}
		if err := b.stricterThan(e); err != nil {
			return err
		}
	}
	return nil
}

// refusedRow is a client that a limit refused in a minute or an hour.
type refusedRow struct {
	at     int64
	client string
}

// besides is what other limits decided for such a client at that time.
type besides struct {
	refused int64          // by the limit itself
	decided map[name]int64 // by the others
}

// stricterThan looks at what other limits decided for the same clients at the same
// time: who is the same key, the same address or the same user. A request that a
// limit refused without deciding it was decided by one of those.
func (b *ruleBook) stricterThan(e *ruleEntry) error {
	rows := map[refusedRow]*besides{}
	for _, who := range [...]string{"client", "address", "username"} {
		if err := b.r.decidedBeside(e.name, who, rows); err != nil {
			return err
		}
	}
	sums := map[name]int64{}
	for _, row := range rows {
		all := int64(0)
		for _, n := range row.decided {
			all += n
		}
		for other, n := range row.decided {
			// At least so many: the rest may have been decided by the others.
			sums[other] += max(min(n, row.refused-(all-n)), 0)
		}
	}
	for other, n := range sums {
		if s := e.stricter; n > 0 && (s == nil || n > s.Decisions || n == s.Decisions && other.rule+other.limit < s.Rule+s.Limit) {
			e.stricter = &advice.Stricter{Rule: other.rule, Limit: other.limit, Decisions: n}
		}
	}
	return nil
}

// decidedBeside adds what limits of the same domain decided for the clients that a
// limit refused, by who they are: a column of clients. Of several ways in which a
// client is the same the one with the most decisions counts.
func (r *reader) decidedBeside(of name, who string, rows map[refusedRow]*besides) error {
	found := map[refusedRow]map[name]int64{}
	own := ids(r.versions(of))
	err := query(r.tx, func(row Row) error {
		other := nameOf(r.limits[row.Int(3)])
		if other == of || other.domain != of.domain {
			return nil
		}
		at := refusedRow{row.Int(0), row.Text(1)}
		if rows[at] == nil {
			rows[at] = &besides{decided: map[name]int64{}}
		}
		if found[at] == nil {
			found[at] = map[name]int64{}
		}
		rows[at].refused = max(rows[at].refused, row.Int(2))
		found[at][other] += row.Int(4)
		return nil
	}, `SELECT a.at, a.client, a.refused, b.limit_id, b.n FROM clients a JOIN (
			SELECT at, `+who+` AS who, limit_id, CAST(SUM(decisive) AS BIGINT) AS n FROM clients
			WHERE grain = $1 AND at >= $2 AND at < $3 AND decisive > 0 AND client <> '' AND `+who+` <> '' AND limit_id NOT IN (`+own+`)
			GROUP BY at, `+who+`, limit_id) AS b ON b.at = a.at AND b.who = a.`+who+`
		WHERE a.grain = $1 AND a.at >= $2 AND a.at < $3 AND a.limit_id IN (`+own+`) AND a.client <> '' AND a.refused > 0
		ORDER BY a.at, a.client, b.limit_id LIMIT `+strconv.Itoa(maxBeside), int64(r.clientGrain()), r.from, r.to)
	for at, others := range found {
		for other, n := range others {
			rows[at].decided[other] = max(rows[at].decided[other], n)
		}
	}
	return err
}
