package verdict

// grade is how good the reasons for a verdict are: how many more hold than the one
// without which there would be no verdict, at most grades-1.
type grade int

const grades = 5

// known is what there is to judge by.
type known int

const (
	knownAll    known = iota // who asked for what, and how it was answered
	knownAsked               // who asked for what
	knownCounts              // how much and when
	knowns
)

func knowledge(e *Evidence) known {
	switch {
	case !e.Identified:
		return knownCounts
	case e.Answers == nil || e.Answers.Count < someAnswers:
		return knownAsked
	}
	return knownAll
}

// tried is how many verdicts of a kind there were in the tuning traffic, and how
// many of them were right.
type tried struct{ right, of int }

// most is the highest confidence: traffic that is made up is cleaner than any
// other.
const mostConfident = 0.97

// confidence is the share of verdicts of a kind that were right in the tuning
// traffic, with one right and one wrong added, so that few say little.
func confidence(c Class, k known, g grade) float64 {
	if c == Undecided {
		return 0
	}
	t := calibration[c][k][g]
	return min(float64(t.right+1)/float64(t.of+2), mostConfident)
}
