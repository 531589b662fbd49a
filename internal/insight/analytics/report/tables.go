package report

import (
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// maxSources is how many sources an answer has: those that were heard last.
const maxSources = 1000

// ReadSources reads what the sources told.
func (out *System) ReadSources(in *rows.Statements) {
	at := map[int64]int{}
	in.ReadRows(func(row rows.Row) {
		source := row.Text(1)
		at[row.Int(0)] = len(out.Sources)
		out.Sources = append(out.Sources, SourceInfo{
			Node: rows.NodeOfSource(source), Source: source, First: time.Unix(row.Int(2), 0).UTC(), Last: time.Unix(row.Int(3), 0).UTC(),
			Events: row.Int(4), Unheard: max(row.Int(5)-row.Int(4)-row.Int(6), 0), Region: row.Text(7),
		})
	}, `SELECT id, source, first, last, events, highest, late, region FROM sources ORDER BY last DESC, id LIMIT `+strconv.Itoa(maxSources))
	in.ReadRows(func(row rows.Row) {
		if i, ok := at[row.Int(0)]; ok {
			out.Sources[i].Loss = event.Loss{Dropped: uint64(row.Int(1)), Discarded: uint64(row.Int(2)), Rollups: uint64(row.Int(3)), Failed: uint64(row.Int(4))}
		}
	}, `SELECT source_id, MAX(dropped), MAX(discarded), MAX(rollups), MAX(failed) FROM losses GROUP BY source_id`)
}

// CountRows counts the rows of each kind.
func (out *System) CountRows(in *rows.Statements, bounds *rows.Bounds) {
	sec := func(d time.Duration) int64 { return int64(d.Seconds()) }
	counts := []int64{0, sec(bounds.KeepMinutes), sec(bounds.KeepHours), sec(bounds.KeepDays)}
	clients := []int64{0, sec(bounds.KeepClientMinutes), sec(bounds.KeepClientHours)}
	for _, t := range rows.CountTables {
		for _, g := range rows.Grains {
			out.countTable(in, TableInfo{Name: t.Name, Grain: g.String(), KeptS: counts[g]}, "at", 1, " WHERE grain = "+strconv.Itoa(int(g)))
		}
	}
	for g := rows.Minute; int(g) < len(clients); g++ {
		out.countTable(in, TableInfo{Name: "clients", Grain: g.String(), KeptS: clients[g]}, "at", 1, " WHERE grain = "+strconv.Itoa(int(g)))
	}
	for _, t := range []struct {
		name, at string
		unit     int64
		kept     int64
	}{
		{"words", "at", 1, clients[rows.Hour]}, {"arrivals", "at", 1e6, sec(bounds.KeepArrivals)}, {"losses", "at", 1, counts[rows.Hour]},
		{"seen", "last", 1, sec(bounds.KeepSeen)}, {"limits", "first", 1, counts[rows.Day]}, {"sources", "first", 1, counts[rows.Hour]},
	} {
		out.countTable(in, TableInfo{Name: t.name, KeptS: t.kept}, t.at, t.unit, "")
	}
}

func (out *System) countTable(in *rows.Statements, info TableInfo, column string, unit int64, where string) {
	in.ReadRows(func(row rows.Row) {
		if info.Rows = row.Int(0); info.Rows > 0 {
			at := time.Unix(row.Int(1)/unit, 0).UTC()
			info.Oldest = &at
		}
	}, `SELECT COUNT(*), MIN(`+column+`) FROM `+info.Name+where)
	out.Tables = append(out.Tables, info)
}
