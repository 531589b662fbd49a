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

// stricterThan looks at what other limits decided for the same clients at the same
// time: who is the same key, the same address or the same user. A request that a
// limit refused without deciding it was decided by one of those.
func (b *ruleBook) stricterThan(e *ruleEntry) error {
	r := b.r
	refused := map[refusedRow]int64{}
	beside := map[refusedRow]map[name]int64{} // in how many decisions the other limit decided
	for _, same := range [...]string{"b.client = a.client", "a.address <> '' AND b.address = a.address", "a.username <> '' AND b.username = a.username"} {
		w := &where{}
		w.and("a.grain = ? AND a.at >= ? AND a.at < ?", int64(r.clientGrain()), r.from, r.to)
		w.and("a.limit_id IN (" + ids(r.versions(e.name)) + ") AND a.client <> '' AND a.refused > 0")
		found := map[refusedRow]map[name]int64{}
		err := query(r.tx, func(row Row) error {
			other := nameOf(r.limits[row.Int(3)])
			if other == e.name || other.domain != e.name.domain {
				return nil
			}
			at := refusedRow{row.Int(0), row.Text(1)}
			refused[at] = max(refused[at], row.Int(2))
			if found[at] == nil {
				found[at] = map[name]int64{}
			}
			found[at][other] += row.Int(4)
			return nil
		}, `SELECT a.at, a.client, MAX(a.refused), b.limit_id, CAST(SUM(b.decisive) AS BIGINT) FROM clients a
			JOIN clients b ON b.grain = a.grain AND b.at = a.at AND b.limit_id <> a.limit_id AND b.decisive > 0 AND b.client <> '' AND `+same+w.text+`
			GROUP BY a.at, a.client, b.limit_id ORDER BY a.at, a.client, b.limit_id LIMIT `+strconv.Itoa(maxBeside), w.args...)
		if err != nil {
			return err
		}
		for at, others := range found {
			if beside[at] == nil {
				beside[at] = map[name]int64{}
			}
			for other, n := range others {
				beside[at][other] = max(beside[at][other], n)
			}
		}
	}
	sums := map[name]int64{}
	for at, others := range beside {
		all := int64(0)
		for _, n := range others {
			all += n
		}
		for other, n := range others {
			// At least so many: the rest may have been decided by the others.
			sums[other] += max(min(n, refused[at]-(all-n)), 0)
		}
	}
	for other, n := range sums {
		if s := e.stricter; n > 0 && (s == nil || n > s.Decisions || n == s.Decisions && other.rule+other.limit < s.Rule+s.Limit) {
			e.stricter = &advice.Stricter{Rule: other.rule, Limit: other.limit, Decisions: n}
		}
	}
	return nil
}
