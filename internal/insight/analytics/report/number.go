package report

func roundMillionths(f float64) float64 {
	return float64(int64(f*1e6+0.5)) / 1e6
}

// quantileOf returns what so many in a hundred of what is sorted do not exceed, zero of nothing.
func quantileOf[N int64 | float64](sorted []N, percent int) N {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
