package analytics

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
)

// maxSources is how many sources an answer has: those that were heard last.
const maxSources = 1000

func (s *Service) system(ctx context.Context) (*System, error) {
	now := s.opt.Now()
	out := &System{At: now.UTC(), Database: s.db.Dialect().Kind, Schema: SchemaVersion(), Sources: []SourceInfo{}, Service: s.state.info(now)}
	var err error
	if out.Bytes, err = s.db.Used(ctx); err != nil {
		return nil, err
	}
	last := s.lastSystem.Load()
	recent := last != nil && now.Sub(last.At) >= 0 && now.Sub(last.At) < countEvery
	err = s.db.View(ctx, asTx(func(in *statements) {
		out.sources(in)
		if !recent {
			out.tables(in, &s.opt)
		}
	}))
	if recent {
		out.Tables = last.Tables
	} else if err == nil {
		s.lastSystem.Store(out)
	}
	return out, err
}

// countEvery is how often rows are counted at most: that takes long where there
// are many.
const countEvery = 30 * time.Second

func (out *System) sources(in *statements) {
	at := map[int64]int{}
	in.query(func(row Row) {
		source := row.Text(1)
		at[row.Int(0)] = len(out.Sources)
		out.Sources = append(out.Sources, SourceInfo{
			Node: nodeOf(source), Source: source, First: time.Unix(row.Int(2), 0).UTC(), Last: time.Unix(row.Int(3), 0).UTC(),
			Events: row.Int(4), Unheard: max(row.Int(5)-row.Int(4)-row.Int(6), 0), Region: row.Text(7),
		})
	}, `SELECT id, source, first, last, events, highest, late, region FROM sources ORDER BY last DESC, id LIMIT `+strconv.Itoa(maxSources))
	in.query(func(row Row) {
		if i, ok := at[row.Int(0)]; ok {
			out.Sources[i].Loss = event.Loss{Dropped: uint64(row.Int(1)), Discarded: uint64(row.Int(2)), Rollups: uint64(row.Int(3)), Failed: uint64(row.Int(4))}
		}
	}, `SELECT source_id, MAX(dropped), MAX(discarded), MAX(rollups), MAX(failed) FROM losses GROUP BY source_id`)
}

func (out *System) tables(in *statements, opt *Options) {
	sec := func(d time.Duration) int64 { return int64(d.Seconds()) }
	counts := []int64{0, sec(opt.KeepMinutes), sec(opt.KeepHours), sec(opt.KeepDays)}
	clients := []int64{0, sec(opt.KeepClientMinutes), sec(opt.KeepClientHours)}
	for _, t := range countTables {
		for _, g := range grains {
			out.table(in, TableInfo{Name: t.name, Grain: g.String(), KeptS: counts[g]}, "at", 1, " WHERE grain = "+strconv.Itoa(int(g)))
		}
	}
	for g := Minute; int(g) < len(clients); g++ {
		out.table(in, TableInfo{Name: "clients", Grain: g.String(), KeptS: clients[g]}, "at", 1, " WHERE grain = "+strconv.Itoa(int(g)))
	}
	for _, t := range []struct {
		name, at string
		unit     int64
		kept     int64
	}{
		{"words", "at", 1, clients[Hour]}, {"arrivals", "at", 1e6, sec(opt.KeepArrivals)}, {"losses", "at", 1, counts[Hour]},
		{"seen", "last", 1, sec(opt.KeepSeen)}, {"limits", "first", 1, counts[Day]}, {"sources", "first", 1, counts[Hour]},
	} {
		out.table(in, TableInfo{Name: t.name, KeptS: t.kept}, t.at, t.unit, "")
	}
}

func (out *System) table(in *statements, info TableInfo, column string, unit int64, where string) {
	in.query(func(row Row) {
		if info.Rows = row.Int(0); info.Rows > 0 {
			at := time.Unix(row.Int(1)/unit, 0).UTC()
			info.Oldest = &at
		}
	}, `SELECT COUNT(*), MIN(`+column+`) FROM `+info.Name+where)
	out.Tables = append(out.Tables, info)
}

// reportFilters returns what there is to filter by.
func reportFilters(r *reader) *Words {
	out := &Words{Coverage: r.coverage(), Limits: []Limit{}, Domains: []string{}, Rules: []string{}, Algorithms: []string{}, Outcomes: []string{},
		Nodes: []string{}, Regions: []string{}, Tiers: []string{}, Paths: []string{}}
	met := map[int64]bool{}
	for _, by := range []struct {
		column string
		to     *[]string
	}{{"node", &out.Nodes}, {"region", &out.Regions}} {
		r.counts(r.to-r.from, by.column, func(row countRow) {
			met[row.limit] = true
			once(&out.Outcomes, row.outcome)
			if row.where != "" {
				once(by.to, row.where)
			}
		})
	}
	for _, n := range r.names() {
		for _, id := range r.versions(n) {
			if l := r.byID[id]; met[id] {
				out.Limits = append(out.Limits, l)
				once(&out.Domains, l.Domain)
				once(&out.Rules, l.Rule)
				once(&out.Algorithms, l.Algorithm)
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

// once adds a word that is not there.
func once(list *[]string, word string) {
	if !slices.Contains(*list, word) {
		*list = append(*list, word)
	}
}
