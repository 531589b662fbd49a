package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Thresholds. docs/explanation/verdicts.md says the same.
const (
	// A limit exceeded by less than a half is one that fits nearly.
	nearTimes = 1.5

	// Shares of fewer answers or refusals than these say nothing: of ten, one more or
	// less moves a share by a tenth.
	someAnswers  = 10
	someRefusals = 10

	// People mistype, links break: well below one answer in ten is 401, 403 or 404.
	// Whoever guesses is wrong nearly always. Half lies far from both.
	deniedShare = 0.5
	goodShare   = 0.8

	// Who waits as told is never early, but for requests that were under way when
	// the refusal came. Who does not is early most of the time, unless Retry-After is
	// shorter than its own pace: then early says nothing, and it is not called hasty.
	waitShare  = 0.05
	hastyShare = 0.1
	earlyShare = 0.5

	// What a program does when it goes wrong is a small multiple of what it does
	// when it goes right. Twenty times, and fifteen in the mean of all minutes in which
	// it came, is not an accident's size. Limits by the hour or the day are not
	// exceeded as often: there it is the pace, and five requests a second, which
	// nobody sends who looks at answers.
	floodTimes  = 20.0
	floodPace   = 15.0
	floodOver   = 1.5
	floodSecond = 5.0
	// Who backs off waits twice as long each time, and so asks a handful of times for
	// each time it is let pass. At five times the limit, nobody backs off.
	hardPressing = 5.0
	// Whoever asks for less than half of the limit's rate is no runaway, however
	// often it is refused.
	runaway = 0.5
	// Asking for a fifth more than is allowed, in the mean, is asking for too much
	// and not coming in bursts. Below 1 a limit that lets bursts pass would refuse
	// nothing.
	pressing = 1.2
	bursting = 1.0

	// Three verified users are no family's phone. Agents are told apart by name, and
	// one person has two or three devices and updates one.
	manyUsers  = 3
	manyAgents = 3

	// A key that three addresses send is no client, unless it names an account.
	manyAddresses = 3

	// A person or an application asks for some twenty different paths, an API for a
	// few; who takes everything asks for a new one each time.
	manyPaths    = 30
	maxRarePaths = 2

	// Independent requests at 60 in a minute vary by 13 %, people's by more than
	// half, since they come and go. A program in a loop varies by a few percent.
	steadySpread = 0.1
	evenSpread   = 0.35
	// People behind one address even each other out: a few dozen vary by a third.
	crowdSpread  = 0.2
	unevenSpread = 0.7
	// Who sends as fast as it can while it is let, and then waits, has seconds that
	// are several times as busy as the mean of a busy minute.
	rushTimes = 3.0
	// Spread of fewer spans than these is chance.
	evenSpans = 5

	// Gone within five minutes: a sale, a reload, an impatient click.
	briefSpans = 5
	// What has been going on for a while stays what it looks like. Before, who retries looks
	// like who runs away, and whoever begins looks like who comes once: that nothing is wrong
	// takes longer to see.
	settledSpans, settledLegitimate, settledHours = 20, 40, 3
	// What speaks for abuse does so early, but not before several people behind an address can be seen.
	settledAbusive = 6
	// What is usual is told of after three spans of time and an hour in all.
	knownSpans = 3
	knownFor   = time.Hour
)

// sign is something that the evidence shows or does not.
type sign struct {
	holds bool
	text  string
}

func signWhen(holds bool, format string, args ...any) sign {
	if !holds {
		return sign{}
	}
	return sign{true, fmt.Sprintf(format, args...)}
}

// signs is what can be read from evidence.
type signs struct {
	// What it asked for, and how it was answered.
	denied, good, mostlyGood, searching, oneRoute, loginPath sign
	// Who it is.
	everybody, many, manyAgents, user, anonymous, fresh, known, person, program sign
	// How much, and how evenly.
	idle, rare, floods, crawls, near, presses, pressesHard, bursts, brief, steady, even, machine, uneven, rushes, yields sign
	// What it does when it is refused.
	ignores, hasty, waits sign
	open                  sign
}

func readSigns(e *Evidence) (s signs) {
	s.readResponses(e)
	s.readClient(e)
	s.readAmount(e)
	s.refused(e)
	return s
}

func (s *signs) readResponses(e *Evidence) {
	s.searching = signWhen(e.Paths >= manyPaths, "it asked for some %d different paths", e.Paths)
	s.oneRoute = signWhen(e.Paths > 0 && e.Paths <= maxRarePaths, "it asks for %s only", writeCount(e.Paths, "path"))
	s.loginPath = signWhen(loginPath(e.Path), "it asks for %s only", e.Path)
	a := e.Answers
	if a == nil || a.Count < someAnswers {
		return
	}
	good := ratio(a.OK+a.Redirect, a.Count)
	s.denied = signWhen(ratio(a.Denied, a.Count) >= deniedShare, "%d of %d answers were 401, 403 or 404", a.Denied, a.Count)
	s.good = signWhen(good >= goodShare, "%d of %d answers were good", a.OK+a.Redirect, a.Count)
	s.mostlyGood = signWhen(good >= 1-deniedShare, "%d of %d answers were good", a.OK+a.Redirect, a.Count)
}

func (s *signs) readClient(e *Evidence) {
	s.everybody = signWhen(e.Kind == Unknown && e.Addresses >= manyAddresses, "the key is no client's: at least %d addresses send it", e.Addresses)
	if e.Kind != Account {
		s.many = signWhen(e.Users >= manyUsers, "there are at least %d users behind it", e.Users)
		s.manyAgents = signWhen(e.Agents >= manyAgents, "there are at least %d different agents behind it", e.Agents)
		if !s.many.holds {
			s.many, s.manyAgents = s.manyAgents, sign{}
		}
	}
	s.user = signWhen(e.Kind == Account || e.Users > 0, "it is signed in")
	s.anonymous = signWhen(e.Kind != Account && e.Identified && e.Users == 0, "nobody behind it is signed in")
	s.person = signWhen(e.Agent == "browser", "it says that it is a browser")
	s.program = signWhen(e.Agent != "" && e.Agent != "browser", "it says that it is no browser but %s", e.Agent)
	s.fresh = signWhen(e.Sampled && e.Before >= 24*time.Hour && e.History == 0, "it was not seen in the %s before", lasting(e.Before))
	s.known = signWhen(e.History >= knownSpans && time.Duration(e.History)*e.HistorySpan >= knownFor && e.Usual <= float64(e.Allowance),
		"it is known and usually stays below the limit: 95 in 100 of its periods had at most %.0f of %d", e.Usual, e.Allowance)
}

func (s *signs) readAmount(e *Evidence) {
	span := spanName(e)
	in := span + "s"
	s.idle = signWhen(e.Refused == 0, "it was never refused")
	s.rare = signWhen(e.Refused > 0 && e.Refused < someRefusals, "it %s", refusals(e, writeTimes(e.Enforced()), writeTimes(e.Shadowed), "only "))
	s.floods = signWhen(e.Pace() >= floodPace && (e.Overshoot() >= floodTimes || e.Period > e.Span && e.Overshoot() >= floodOver && ratio(e.Units, e.Active) >= floodSecond*e.Span.Seconds()),
		"in the %d %s in which it came it asked for %.0f times the limit's rate, and for %d, %.0f times the limit, at its peak", e.Active, in, e.Pace(), e.Peak, e.Overshoot())
	s.crawls = signWhen(e.Pace() < runaway, "it asks for %.0f %% of the limit's rate", 100*e.Pace())
	s.presses = signWhen(e.Pressure() >= pressing, "in the %d %s in which it came it asked for %.1f times what is allowed", e.Active, in, e.Pressure())
	s.pressesHard = signWhen(e.Pressure() >= hardPressing, "%s", s.presses.text)
	s.near = signWhen(e.Refused > 0 && e.Overshoot() < nearTimes, "at its peak it asked for %.1f times the limit", e.Overshoot())
	s.bursts = signWhen(e.Refused > 0 && e.Pressure() < bursting,
		"it comes in bursts: at its peak it asked for %d, but in the %d %s in which it came for no more than %.0f %% of what is allowed",
		e.Peak, e.Active, in, 100*e.Pressure())
	s.brief = signWhen(e.Refused > 0 && !e.Ongoing && e.Spans <= briefSpans && e.Span <= time.Minute, "it was gone after %s", writeCount(e.Spans, span))
	enough := e.Spans >= evenSpans
	s.steady = signWhen(enough && e.Spread <= steadySpread, "its demand is even: it varies by %.0f %% around the mean", 100*e.Spread)
	s.even = signWhen(enough && e.Spread <= evenSpread, "its demand is even: it varies by %.0f %% around the mean", 100*e.Spread)
	s.yields = signWhen(enough && e.Spread > evenSpread, "its demand gives way: it varies by %.0f %% around the mean", 100*e.Spread)
	s.rushes = signWhen(e.Refused > 0 && e.Rush() >= rushTimes, "it sends in rushes: %d in its busiest second, and %d in its busiest %s", e.Busiest, e.SpanPeak, span)
	s.machine = s.even
	if e.Agents >= manyAgents && e.Spread > crowdSpread {
		s.machine = sign{}
	}
	s.uneven = signWhen(enough && e.Spread >= unevenSpread, "its demand comes and goes: it varies by %.0f %% around the mean", 100*e.Spread)
}

func (s *signs) refused(e *Evidence) {
	enough := e.Enforced() >= someRefusals
	s.ignores = signWhen(enough && e.EarlyShare() >= earlyShare,
		"it does not wait when it is told to: of its requests %d came too early, against %s", e.Early, writeCount(e.Enforced(), "refusal"))
	s.hasty = signWhen(enough && !s.ignores.holds && e.EarlyShare() >= hastyShare,
		"it does not always wait when it is told to: of its requests %d came too early, against %s", e.Early, writeCount(e.Enforced(), "refusal"))
	s.waits = signWhen(e.Enforced() > 0 && e.EarlyShare() <= waitShare,
		"it waits when it is told to: of its requests %d came too early, against %s", e.Early, writeCount(e.Enforced(), "refusal"))
	s.open = signWhen(true, "it %s, and neither what it asked for nor how it came is plain",
		refusals(e, partOfTimes(e.Enforced(), e.Demand), partOfTimes(e.Shadowed, e.Demand), ""))
}

// loginWords are words in paths by which people sign in.
var loginWords = []string{"login", "signin", "sign-in", "sign_in", "logon", "password", "passwd", "otp"}

func loginPath(path string) bool {
	path = strings.ToLower(path)
	return slices.ContainsFunc(loginWords, func(w string) bool { return strings.Contains(path, w) })
}

// missing lists what is not known and would have helped.
func missing(e *Evidence) (out []string) {
	if e.Answers == nil || e.Answers.Count < someAnswers {
		out = append(out, "how its requests were answered")
	}
	if !e.Identified {
		out = append(out, "who is behind it and what it asked for")
	}
	if e.Refused > 0 && e.Enforced() == 0 {
		out = append(out, "what it does when it is refused: the limit is in shadow mode")
	}
	if e.History == 0 && (e.Before < 24*time.Hour || !e.Sampled) {
		out = append(out, "what it did before")
	}
	return out
}

func writeCount(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// refusals says how often the client was refused, and how often it would have been
// but for shadow mode.
func refusals(e *Evidence, impatient, shadowed, only string) string {
	switch {
	case e.Shadowed == 0:
		return "was refused " + only + impatient
	case e.Enforced() == 0:
		return "would have been refused " + only + shadowed + " in shadow mode, and was not refused"
	}
	return "was refused " + only + impatient + ", and would have been refused " + shadowed + " in shadow mode"
}

// refusedAt says that a refusal, the first or at a time, was one or would have been.
func refusedAt(e *Evidence, when string) string {
	switch {
	case e.Shadowed == 0:
		return "it was refused " + when
	case e.Enforced() == 0:
		return "it would have been refused " + when + " in shadow mode"
	}
	return "it was refused " + when + ", or would have been in shadow mode"
}

func partOfTimes(n, all int64) string { return fmt.Sprintf("%d of %d times", n, all) }

func writeTimes(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// lasting is a duration in days, or hours below two of them.
func lasting(d time.Duration) string {
	if d >= 48*time.Hour {
		return writeCount(int64(d/(24*time.Hour)), "day")
	}
	return writeCount(int64(d/time.Hour), "hour")
}

// spanName names a span of the evidence.
func spanName(e *Evidence) string {
	switch e.Span {
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case time.Second:
		return "second"
	}
	return "span"
}
