package report

import (
	"slices"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// reportFilters returns what there is to filter by.
func reportFilters(r *query.Reader) *Words {
	out := &Words{Coverage: r.ReadCoverage(), Limits: []rows.Limit{}, Domains: []string{}, Rules: []string{}, Algorithms: []string{}, Outcomes: []string{},
		Nodes: []string{}, Regions: []string{}, Tiers: []string{}, Paths: []string{}}
	met := map[int64]bool{}
	for _, by := range []struct {
		column string
		to     *[]string
	}{{"node", &out.Nodes}, {"region", &out.Regions}} {
		r.EachCount(r.To-r.From, by.column, func(row query.CountRow) {
			met[row.Limit] = true
			addOnce(&out.Outcomes, row.Outcome)
			if row.Where != "" {
				addOnce(by.to, row.Where)
			}
		})
	}
	for _, n := range r.ListNames() {
		for _, id := range r.ListVersions(n) {
			if l := r.ByID[id]; met[id] {
				out.Limits = append(out.Limits, l)
				addOnce(&out.Domains, l.Domain)
				addOnce(&out.Rules, l.Rule)
				addOnce(&out.Algorithms, l.Algorithm)
			}
		}
	}
	for _, w := range []struct {
		kind string
		to   *[]string
	}{{"tier", &out.Tiers}, {"path", &out.Paths}} {
		for _, t := range readTopWords(r, w.kind) {
			*w.to = append(*w.to, t.Word)
		}
	}
	for _, words := range [][]string{out.Outcomes, out.Nodes, out.Regions, out.Domains, out.Rules, out.Algorithms} {
		slices.Sort(words)
	}
	return out
}

// addOnce adds a word that is not there.
func addOnce(list *[]string, word string) {
	if !slices.Contains(*list, word) {
		*list = append(*list, word)
	}
}
