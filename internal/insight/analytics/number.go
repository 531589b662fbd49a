package analytics

import "math"

func round(f float64) float64 {
	return float64(int64(f*1e6+0.5)) / 1e6
}

func ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return math.Round(float64(a)/float64(b)*1e6) / 1e6
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// quantile returns what so many in a hundred of what is sorted do not exceed, zero of nothing.
func quantile[N int64 | float64](sorted []N, percent int) N {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

// figure bounds a number.
func figure(n uint64) int64 { return int64(min(n, maxFigure)) }

func figureOf(n int64) int64 { return min(max(n, 0), maxFigure) }

func bitOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
