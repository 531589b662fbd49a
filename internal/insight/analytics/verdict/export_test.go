package verdict

// Grades and Knowns are the sizes of the table of confidence.
const (
	Grades = grades
	Knowns = int(knowns)
)

// Graded returns where a verdict stands in the table of confidence.
func Graded(e *Evidence) (v Verdict, known, grade int) {
	j := classify(e)
	return j.Verdict, int(knowledge(e)), int(j.grade)
}

// Tried returns an entry of the table of confidence.
func Tried(c Class, known, grade int) (right, of int) {
	t := calibration[c][known][grade]
	return t.right, t.of
}

// Classes lists every class.
func Classes() []Class { return []Class{Legitimate, Shared, Runaway, Abusive, Undecided} }
