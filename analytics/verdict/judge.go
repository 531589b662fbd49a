package verdict

// Judge says what the evidence bears.
//
// The questions are asked in an order: what a client was looking for weighs more
// than who it is, and that more than how it behaves when it is refused.
func Judge(e *Evidence) Verdict {
	j := judgement{signs: read(e)}
	j.Class = j.decide()
	j.Missing = missing(e)
	j.Confidence = confidence(j.Class, j.grade, len(j.Missing))
	return j.Verdict
}

// judgement is a verdict that is being made.
type judgement struct {
	Verdict
	signs signs
	// grade is how good the reasons are.
	grade grade
}

// because notes reasons, those that hold.
func (j *judgement) because(signs ...sign) {
	for _, s := range signs {
		if s.holds {
			j.Reasons = append(j.Reasons, s.text)
		}
	}
}

// although notes what speaks against the verdict, of what holds.
func (j *judgement) although(signs ...sign) {
	for _, s := range signs {
		if s.holds {
			j.Against = append(j.Against, s.text)
		}
	}
}

func (j *judgement) decide() Class {
	s := &j.signs
	switch {
	case s.idle.holds && !s.denied.holds:
		j.because(s.idle, s.known, s.good)
		j.grade = of(s.good, s.known)
		return Legitimate
	case s.denied.holds && !(s.many.holds && s.mostlyGood.holds):
		j.because(s.denied, s.searching, s.ignores, s.fresh)
		j.although(s.many, s.user, s.waits)
		j.grade = of(s.searching, s.ignores, s.fresh)
		return Abusive
	case s.many.holds:
		j.because(s.many, s.good, s.uneven)
		j.although(s.denied, s.floods)
		j.grade = of(s.good, s.users)
		return Shared
	case s.floods.holds && s.ignores.holds:
		j.because(s.floods, s.ignores, s.fresh)
		j.although(s.known, s.good)
		j.grade = of(s.fresh, s.persists)
		return Abusive
	case s.ignores.holds && s.persists.holds && s.searching.holds:
		j.because(s.searching, s.ignores, s.persists, s.fresh)
		j.although(s.user, s.good)
		j.grade = of(s.fresh, s.stranger)
		return Abusive
	case s.ignores.holds && s.persists.holds:
		j.because(s.ignores, s.persists, s.even, s.oneRoute)
		j.although(s.uneven)
		j.grade = of(s.even, s.oneRoute)
		return Runaway
	case s.waits.holds || s.brief.holds || s.near.holds:
		j.because(s.waits, s.brief, s.near, s.known, s.user, s.good)
		j.although(s.fresh, s.ignores)
		j.grade = of(s.waits, s.brief, s.near, s.good)
		return Legitimate
	}
	j.because(s.open)
	return Undecided
}
