package analytics

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/insight/analytics/advice"
)

const (
	// maxStricter is for how many limits the stricter one is looked for.
	maxStricter = 20
	// maxDecided is how many rows beside those of a limit are looked at, in each way.
	maxDecided = 100_000
)

// stricter finds, for limits that refuse and are never the answer, the limit that
// is.
func (b *ruleBook) stricter() {
	n := 0
	for _, e := range b.list {
		if e.shadow || e.figures.Counts["refused"] == 0 || e.figures.Decisive > 0 {
			continue
		}
		if n++; n > maxStricter {
			b.r.missing = append(b.r.missing, "which limit is stricter is looked for of "+strconv.Itoa(maxStricter)+" limits that are never decisive")
			return
		}
		b.stricterThan(e)
	}
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

func newDecided() map[name]int64 { return map[name]int64{} }

// stricterThan looks at what other limits decided for the same clients at the same
// time: who is the same key, the same address or the same user. A request that a
// limit refused without deciding it was decided by one of those.
func (b *ruleBook) stricterThan(e *ruleEntry) {
	sums := map[name]int64{}
	for _, row := range readDecidedAlongside(b.r, e.name) {
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
}

// ways are the words by which a client of another limit is the same: the key, the address
// and the user.
const ways = 3

// who returns who a row is of, in a way; empty if that is not known.
func (l *clientLine) who(way int) string {
	return [ways]string{l.client, l.w[wAddress], l.w[wUser]}[way]
}

// readDecidedAlongside returns what limits of the same domain decided for the clients that a
// limit refused. Of several ways in which a client is the same the one with the most
// decisions counts.
func readDecidedAlongside(r *reader, of name) map[refusedRow]*besides {
	own := map[int64]bool{}
	for _, id := range r.versions(of) {
		own[id] = true
	}
	domain := r.only(nil).ofAllClients()
	for id, l := range r.byID {
		if l.Domain == of.domain {
			domain.chosen = append(domain.chosen, id)
		}
	}
	slices.Sort(domain.chosen)
	type asker struct {
		at  int64
		who string
	}
	type refusal struct {
		refusedRow
		who     [ways]string
		refused int64
	}
	need := clientColumns{cells: []int{cRefused, cDecisive}, words: []int{wAddress, wUser}}
	g, rows, examined := r.clientGrain(), map[refusedRow]*besides{}, [ways]int{}
	// As much at a time as a block has, so that little is kept.
	for at := r.from; at < r.to && slices.Min(examined[:]) < maxDecided; {
		end := min(floor(at, blockSeconds(g))+blockSeconds(g), r.to)
		var refusals []refusal
		var decided [ways]map[asker]map[name]int64
		for way := range decided {
			decided[way] = map[asker]map[name]int64{}
		}
		domain.clientRows(g, at, end, need, func(l *clientLine) {
			if own[l.limit] {
				if l.n[cRefused] > 0 {
					refusals = append(refusals, refusal{refusedRow{l.at, l.client}, [ways]string{l.who(0), l.who(1), l.who(2)}, l.n[cRefused]})
				}
				return
			}
			other := nameOf(r.byID[l.limit])
			if l.n[cDecisive] == 0 || other == of {
				return
			}
			for way := range decided {
				who := asker{l.at, l.who(way)}
				if who.who == "" {
					continue
				}
				entry(decided[way], who, newDecided)[other] += l.n[cDecisive]
			}
		})
		slices.SortFunc(refusals, func(a, b refusal) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.client, b.client)) })
		for _, f := range refusals {
			for way, who := range f.who {
				others := decided[way][asker{f.at, who}]
				if len(others) == 0 || examined[way] >= maxDecided {
					continue
				}
				examined[way] += len(others)
				row := entry(rows, f.refusedRow, func() *besides { return &besides{decided: newDecided()} })
				row.refused = max(row.refused, f.refused)
				for other, n := range others {
					row.decided[other] = max(row.decided[other], n)
				}
			}
		}
		at = end
	}
	return rows
}
