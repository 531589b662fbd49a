package verdict

import (
	"fmt"
	"time"
)

// Thresholds. docs/verdicts.md says why each is where it is.
const (
	// Shares of fewer answers or refusals than these are noise.
	someAnswers  = 10
	someRefusals = 10

	deniedShare = 0.5
	goodShare   = 0.8
	earlyShare  = 0.5
	waitShare   = 0.2
	floodTimes  = 20.0
	nearTimes   = 1.5
	manyUsers   = 3
	manyAgents  = 4
	manyPaths   = 12
	fewPaths    = 2
	overShare   = 0.5
	overWindows = 3
	briefShare  = 0.2
	evenSpread  = 0.35
	evenSpans   = 5
	unevenFrom  = 0.7
	usualShare  = 1.0
	knownSpans  = 3
)

// sign is something that the evidence shows or does not.
type sign struct {
	holds bool
	text  string
}

func when(holds bool, format string, args ...any) sign {
	if !holds {
		return sign{}
	}
	return sign{true, fmt.Sprintf(format, args...)}
}

// signs is what can be read from evidence.
type signs struct {
	// what it asked for
	denied, good, mostlyGood, searching, oneRoute sign
	// who it is
	many, users, user, stranger, fresh, known sign
	// how much
	idle, floods, near, persists, brief, even, uneven sign
	// what it does when refused
	ignores, waits sign
	open           sign
}

func read(e *Evidence) (s signs) {
	s.answered(e)
	s.asked(e)
	s.who(e)
	s.amount(e)
	enough := e.Refused >= someRefusals
	s.ignores = when(enough && e.EarlyShare() >= earlyShare,
		"%d of its requests came before the Retry-After of a refusal was over, against %d refusals", e.Early, e.Refused)
	s.waits = when(e.Refused > 0 && e.EarlyShare() <= waitShare,
		"it waits when it is told to: %d of its requests came too early, against %d refusals", e.Early, e.Refused)
	s.open = when(true, "it was refused %d of %d times, and neither what it asked for nor how it came is plain", e.Refused, e.Demand)
	return s
}

func (s *signs) answered(e *Evidence) {
	a := e.Answers
	if a == nil || a.Count < someAnswers {
		return
	}
	good := ratio(a.OK+a.Redirect, a.Count)
	s.denied = when(ratio(a.Denied, a.Count) >= deniedShare, "%d of %d answers were 401, 403 or 404", a.Denied, a.Count)
	s.good = when(good >= goodShare, "%d of %d answers were good", a.OK+a.Redirect, a.Count)
	s.mostlyGood = when(good >= 0.5, "%d of %d answers were good", a.OK+a.Redirect, a.Count)
}

func (s *signs) asked(e *Evidence) {
	s.searching = when(e.Paths >= manyPaths, "it asked for at least %d different paths", e.Paths)
	s.oneRoute = when(e.Paths > 0 && e.Paths <= fewPaths, "it asks for %s only", count(e.Paths, "path"))
}

func (s *signs) who(e *Evidence) {
	if e.Kind != Account {
		s.users = when(e.Users >= manyUsers, "there are at least %d users behind it", e.Users)
		s.many = s.users
		if !s.many.holds {
			s.many = when(e.Agents >= manyAgents, "there are at least %d different agents behind it", e.Agents)
		}
	}
	s.user = when(e.Kind == Account || e.Users > 0, "it is signed in")
	s.stranger = when(e.Kind != Account && e.Identified && e.Users == 0, "nobody behind it is signed in")
	s.fresh = when(e.Before >= 24*time.Hour && e.History == 0, "it was not seen in the %s before", lasting(e.Before))
	s.known = when(e.History >= knownSpans && e.Usual <= usualShare*float64(e.Allowance),
		"it is known, and usually stays below the limit: 95 in 100 of its busy times were at most %.0f of %d", e.Usual, e.Allowance)
}

func (s *signs) amount(e *Evidence) {
	s.idle = when(e.Refused == 0, "it was never refused")
	s.floods = when(e.Overshoot() >= floodTimes, "at its peak it asked for %d, %.0f times the limit", e.Peak, e.Overshoot())
	s.near = when(e.Refused > 0 && e.Overshoot() < nearTimes, "at its peak it asked for %d, %.1f times the limit", e.Peak, e.Overshoot())
	s.persists = when(e.Over >= overWindows && e.OverShare() >= overShare, "it was above the limit in %d of %d periods", e.Over, e.Windows)
	s.brief = when(e.Refused > 0 && (e.Over < overWindows || e.OverShare() <= briefShare), "it was above the limit in %d of %d periods only", e.Over, e.Windows)
	s.even = when(e.Spans >= evenSpans && e.Spread <= evenSpread, "its demand is even: it varies by %.0f %% around the mean", 100*e.Spread)
	s.uneven = when(e.Spans >= evenSpans && e.Spread >= unevenFrom, "its demand comes and goes: it varies by %.0f %% around the mean", 100*e.Spread)
}

// missing lists what is not known and would have helped.
func missing(e *Evidence) (out []string) {
	if e.Answers == nil || e.Answers.Count < someAnswers {
		out = append(out, "how its requests were answered")
	}
	if !e.Identified {
		out = append(out, "who is behind it and what it asked for")
	}
	if e.Before < 24*time.Hour {
		out = append(out, "what it did before")
	}
	return out
}

func count(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// lasting is a duration in days, or hours below two of them.
func lasting(d time.Duration) string {
	if d >= 48*time.Hour {
		return count(int64(d/(24*time.Hour)), "day")
	}
	return count(int64(d/time.Hour), "hour")
}
