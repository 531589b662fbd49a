package verdict

import "time"

// Classify says what the evidence bears.
//
// The questions are asked in an order: what a client was looking for weighs more
// than who it is, that more than how much it asks for, and that more than what it
// does when it is refused.
func Classify(e *Evidence) Verdict {
	j := classify(e)
	j.Missing = missing(e)
	j.Confidence = confidence(j.Class, knowledge(e), j.grade)
	j.Certainty = certaintyOf(j.Confidence)
	return j.Verdict
}

func classify(e *Evidence) *judgement {
	j := &judgement{signs: readSigns(e)}
	j.Class = j.decideClass()
	if part := partial(e, j.Class); part.holds {
		j.Verdict = Verdict{}
		j.Class = j.conclude(Undecided, part)
	}
	return j
}

// partial says why a class is not told yet, if it is not: the range has but a part of
// what the client does.
func partial(e *Evidence, c Class) sign {
	span, need := spanName(e), settledSpans
	switch {
	case c == Abusive:
		need = settledAbusive
	case e.Span > time.Minute:
		need = settledHours
	case c == Legitimate:
		need = settledLegitimate
	}
	switch {
	case c == Undecided || e.Refused == 0 || e.Run >= int64(need):
		return sign{}
	case e.Ongoing:
		return signWhen(true, "it goes on, %s after %s: what it is shows when it has been quiet for a while, or gone on for %s", writeCount(e.Run, span), refusedAt(e, "first"), writeCount(int64(need), span))
	case e.Cut:
		return signWhen(true, "%s, and for %s: what it is shows in a range that has all of it", refusedAt(e, "when the range began"), writeCount(e.Run, span))
	}
	return sign{}
}

// judgement is a verdict that is being made.
type judgement struct {
	Verdict
	signs signs
	// grade is how good the reasons are.
	grade grade
}

// conclude makes a verdict. Those of the reasons that hold are told; the more of them
// hold, the better the verdict.
func (j *judgement) conclude(c Class, reasons ...sign) Class {
	j.grade = -1
	for _, s := range reasons {
		if s.holds {
			j.Reasons = append(j.Reasons, s.text)
			j.grade++
		}
	}
	j.grade = min(max(j.grade, 0), grades-1)
	return c
}

// although notes what speaks against the verdict, of what holds.
func (j *judgement) although(signs ...sign) {
	for _, s := range signs {
		if s.holds {
			j.Against = append(j.Against, s.text)
		}
	}
}

func (j *judgement) decideClass() Class {
	s := &j.signs
	switch {
	case s.everybody.holds:
		return j.conclude(Undecided, s.everybody)
	case s.denied.holds && !(s.many.holds && s.mostlyGood.holds):
		j.although(s.many, s.user, s.waits)
		return j.conclude(Abusive, s.denied, s.searching, s.oneRoute, s.ignores, s.fresh)
	case s.idle.holds:
		j.although(s.fresh)
		return j.conclude(Legitimate, s.idle, s.known, s.good, s.user)
	case s.loginPath.holds && s.anonymous.holds && !s.mostlyGood.holds && (s.presses.holds || s.ignores.holds):
		j.although(s.manyAgents)
		return j.conclude(Abusive, s.loginPath, s.presses, s.anonymous, s.ignores, s.even, s.fresh)
	case s.presses.holds && s.machine.holds && s.searching.holds && s.anonymous.holds && !s.waits.holds:
		j.although(s.good, s.manyAgents)
		return j.conclude(Abusive, s.searching, s.presses, s.anonymous, s.ignores, s.machine, s.fresh)
	case s.many.holds:
		j.although(s.denied, s.floods, s.steady)
		return j.conclude(Shared, s.many, s.manyAgents, s.good, s.person)
	case s.floods.holds && !s.waits.holds && !s.user.holds:
		j.although(s.known)
		return j.conclude(Abusive, s.floods, s.ignores, s.even, s.fresh, s.anonymous)
	case s.runaway():
		j.although(s.brief, s.person)
		return j.conclude(Runaway, s.ignores, s.hasty, s.even, s.oneRoute, s.presses, s.program)
	case s.legitimate():
		if s.uneven.holds {
			s.yields = sign{}
		}
		j.although(s.ignores, s.hasty, s.fresh)
		return j.conclude(Legitimate, s.waits, s.bursts, s.crawls, s.near, s.brief, s.rare, s.uneven, s.rushes, s.yields, s.person, s.user, s.known, s.good)
	}
	j.conclude(Undecided, s.open)
	return Undecided
}

// runaway reports whether it goes on as a program does that does not hear what it
// is told. That takes two things: that it does not wait, and that its demand stays
// the same all the same.
func (s *signs) runaway() bool {
	switch {
	case s.waits.holds || s.person.holds || s.crawls.holds || s.uneven.holds:
		return false
	case s.pressesHard.holds:
		return true
	case !s.even.holds:
		return false
	case s.steady.holds:
		return s.presses.holds || s.ignores.holds && s.oneRoute.holds
	}
	return s.oneRoute.holds && !s.rushes.holds && (s.presses.holds || s.ignores.holds)
}

// legitimate reports whether nothing is wrong with the client but that the limit
// is not made for how it comes.
func (s *signs) legitimate() bool {
	return s.waits.holds || s.bursts.holds || s.crawls.holds || s.near.holds || s.brief.holds || s.rare.holds ||
		s.good.holds && (s.uneven.holds || s.user.holds && !s.oneRoute.holds || s.yields.holds)
}
