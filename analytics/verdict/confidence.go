package verdict

// grade is how good the reasons for a verdict are.
type grade int

const (
	weak grade = iota
	fair
	strong
)

// of grades a verdict by how many further signs hold: none, one, more.
func of(signs ...sign) grade {
	n := grade(0)
	for _, s := range signs {
		if s.holds {
			n++
		}
	}
	return min(n, strong)
}

// confidence is how often verdicts of a grade were right. What is missing lowers
// it by one grade for each, down to the lowest.
func confidence(c Class, g grade, missing int) float64 {
	if c == Undecided {
		return 0
	}
	return [...]float64{0.6, 0.8, 0.95}[max(g-grade(missing), weak)]
}
