package main

import (
	"fmt"

	"github.com/weirlimit/weir/lab/bench/report"
)

// demand is the traffic of 100 million users who make 1,000 requests a day each,
// in requests a second.
const demand = 1_150_000

// memoryTable tells bytes per user, and memory at the sizes of all: measured, or
// in italics computed from the largest that was.
func memoryTable(measured []map[int]figures, s settings) string {
	table := report.NewTable("algorithm", "limit of a user", "a user holds", "bytes a user",
		people(all[0]/s.divisor)+" users", people(all[1]/s.divisor)+" users", people(all[2]/s.divisor)+" users", "design estimate")
	for i, u := range users {
		base := largest(measured[i])
		row := []string{"`" + u.name() + "`", u.limit, u.state, fmt.Sprintf("%.1f (at %s)", base.Heap, people(base.Users))}
		for _, size := range all {
			n := size / s.divisor
			if f, ok := measured[i][n]; ok {
				row = append(row, bytes(f.Heap*float64(n)))
			} else {
				row = append(row, "*"+bytes(base.Heap*float64(n))+"*")
			}
		}
		table.Row(append(row, u.design)...)
	}
	return "Live heap after a garbage collection, the store itself included. *In italics: computed* from the bytes a user of the largest number that was measured.\n\n" + table.String()
}

// rateTable tells decisions for users drawn at random.
func rateTable(measured []map[int]figures) string {
	table := report.NewTable("algorithm", "users", "CPU ns", "a second, one core", "a second, all cores", "cores for 1.15 million a second")
	for i, u := range users {
		f := largest(measured[i])
		table.Row("`"+u.name()+"`", people(f.Users), fmt.Sprintf("%.0f", f.One.CPU), millions(1e9/f.One.CPU), millions(1e9/f.Both.Wall),
			fmt.Sprintf("%.2f", demand*f.One.CPU/1e9))
	}
	return "Decisions for users drawn at random, all equally likely: the worst case for a processor's caches. One decision is one `Limiter.Take`, the making of the key included; for `concurrency` it is a lease taken and given back. Best of the rounds.\n\n" + table.String()
}

// largest returns the figures of most users.
func largest(measured map[int]figures) figures {
	var best figures
	for _, f := range measured {
		if f.Users > best.Users {
			best = f
		}
	}
	return best
}

// people writes round numbers: "10 million", "50 thousand".
func people(n int) string {
	switch {
	case n >= million && n%million == 0:
		return fmt.Sprintf("%d million", n/million)
	case n >= thousand && n%thousand == 0:
		return fmt.Sprintf("%d thousand", n/thousand)
	}
	return fmt.Sprint(n)
}

func millions(perSecond float64) string { return fmt.Sprintf("%.2f million", perSecond/1e6) }

// bytes writes n as the estimates do, in powers of ten.
func bytes(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", n/1e6)
	}
	return fmt.Sprintf("%.0f kB", n/1e3)
}
