package advice

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
)

// Advise says what the figures bear.
func Advise(f *Figures) Answer {
	var a Answer
	switch {
	case f.decisions() == 0:
		a.NoAdvice = "nothing met the limit"
	case f.refusals() == 0:
		a.adviseIdle(f)
	case f.refusals() < someRefusals:
		a.NoAdvice = fmt.Sprintf("%s, too few to judge by: it takes %d", writeCount(f.refusals(), "refusal"), someRefusals)
	default:
		a.adviseBusy(f)
	}
	switch {
	case len(a.Advice) > 0:
		a.NoAdvice = ""
	case a.NoAdvice != "":
	case slices.Contains(a.Badges, TooTight):
		a.NoAdvice = fmt.Sprintf("one sampled client in twenty uses more than %s of it; those that it refused do not look legitimate, so no other number is proposed", percent(tightPeak))
	default:
		a.NoAdvice = "nothing in the figures calls for a change"
	}
	return a
}

func (a *Answer) addBadge(b Badge) {
	if !slices.Contains(a.Badges, b) {
		a.Badges = append(a.Badges, b)
	}
}

func (a *Answer) addStep(kind Kind, allowance, burst int64, format string, args ...any) {
	a.Advice = append(a.Advice, Advice{Kind: kind, Allowance: allowance, Burst: burst, Text: fmt.Sprintf(format, args...)})
}

// adviseIdle judges a limit that refused nothing.
func (a *Answer) adviseIdle(f *Figures) {
	tight := a.adviseNear(f)
	switch n := f.decisions(); {
	case n < idleDecisions:
		a.NoAdvice = fmt.Sprintf("it refused nothing in %s, too few to judge by: it takes %d", writeCount(n, "decision"), idleDecisions)
		return
	case f.rangeLength() < idleRange:
		a.NoAdvice = fmt.Sprintf("it refused nothing in %s; whether it ever does takes a day to tell", lasting(f.rangeLength()))
		return
	}
	a.addBadge(NeverHit)
	if tight {
		a.NoAdvice = fmt.Sprintf("one sampled client in twenty uses more than %s of it: it is about to be hit", percent(tightPeak))
		return
	}
	if s := f.Sample; s.Clients >= looseClients && float64(s.Max) < looseShare*float64(f.Allowance) {
		a.addBadge(TooLoose)
		to := roundUp(2 * s.Max)
		a.addStep(Tighten, to, 0, "It refused nothing in %s of %s, and the busiest of %d sampled clients used %s of the %s. Lower it to %d, twice that client's peak, or remove it.",
			writeCount(f.decisions(), "decision"), lasting(f.rangeLength()), s.Clients, percent(float64(s.Max)/float64(f.Allowance)), f.allowanceInWords(), to)
		return
	}
	a.addStep(Remove, 0, 0, "It refused nothing in %s of %s: keep it as a guard against what has not happened yet, or remove it.",
		writeCount(f.decisions(), "decision"), lasting(f.rangeLength()))
}

// adviseNear judges whether ordinary clients come near the limit.
func (a *Answer) adviseNear(f *Figures) bool {
	s := f.Sample
	if s.Clients < looseClients || float64(s.P95) <= tightPeak*float64(f.Allowance) {
		return false
	}
	a.addBadge(TooTight)
	return true
}

// adviseBusy judges a limit that refused.
func (a *Answer) adviseBusy(f *Figures) {
	if f.Trips >= flapTrips && f.Tripped <= flapMinutes*f.Trips && float64(f.Tripped) < flapShare*float64(f.Minutes) {
		a.addBadge(Flapping)
	}
	if !f.Shadow && f.Refused >= someRefusals && f.Decisive == 0 {
		a.addBadge(NeverDecides)
		a.addStep(Remove, 0, 0, "It refused %s and was never the answer: other limits are always stricter, so this one can go.", writeCount(f.Refused, "request"))
		return
	}
	by, all := f.partsByClass()
	if float64(all.refused) < coverage*float64(f.refusals()) {
		a.NoAdvice = fmt.Sprintf("who was refused is known of %s of the refusals only: it takes %s", percent(share(all.refused, f.refusals())), percent(coverage))
		return
	}
	a.adviseShared(f, by, all)
	a.legitimate(f, by, all)
	a.adviseLoose(f, by)
	a.adviseShadow(f, by, all)
}

// adviseShared judges what addresses that many share have to do with it.
func (a *Answer) adviseShared(f *Figures, by map[verdict.Class]part, all part) {
	p := by[verdict.Shared]
	if p.clients == 0 || share(p.refused, all.refused) < sharedRefusals {
		return
	}
	a.addBadge(SharedAddress)
	if f.Kind != verdict.Address {
		return
	}
	var users int64
	for _, c := range f.Clients {
		if c.Evidence != nil && c.Verdict.Class == verdict.Shared {
			users = max(users, c.Evidence.Users)
		}
	}
	what := fmt.Sprintf("%s had %s of the refusals", writeCount(p.clients, "address that many share", "addresses that many share"), percent(share(p.refused, all.refused)))
	if users > 1 {
		a.addStep(KeyByUser, 0, 0, "%s; behind one of them are at least %d users. Count by user, and by address only who is not signed in.", what, users)
		return
	}
	a.addStep(KeyByUser, 0, 0, "%s. Count by user or API key where there is one, or give these addresses a higher limit of their own.", what)
}

// legitimate judges whether the limit is in the way of those it is not meant for.
func (a *Answer) legitimate(f *Figures, by map[verdict.Class]part, all part) {
	p := by[verdict.Legitimate]
	if p.clients < someClients || share(p.refused, all.refused) < tightRefusals {
		a.adviseNear(f)
		return
	}
	a.addBadge(TooTight)
	var peaks, bursts []int64
	var bursty int64
	for _, c := range f.Clients {
		if e := c.Evidence; e != nil && c.Verdict.Class == verdict.Legitimate {
			peaks = append(peaks, e.Peak)
			if e.Mean() < burstMean*float64(f.Allowance) {
				bursts = append(bursts, e.Burst)
				bursty++
			}
		}
	}
	peak := quantile(peaks, 0.95)
	of := fmt.Sprintf("%d of the %s that it refused look legitimate, with %s of the refusals",
		p.clients, writeCount(all.clients, "client"), percent(share(p.refused, all.refused)))
	if share(bursty, p.clients) < burstClients {
		to := roundUp(max(peak, f.Allowance+1))
		a.addStep(Relax, to, 0, "%s. Relax it: %d instead of %s would have let 95 in 100 of them pass.", of, to, f.allowanceInWords())
		return
	}
	ahead := quantile(bursts, 0.95)
	burst := roundUp(max(burstTimes*ahead, f.Burst+1))
	mean := fmt.Sprintf("%d of these ask for less than half of %s in the mean and come in bursts: 95 in 100 of them were ahead of that rate by at most %d, refused as they were", bursty, f.allowanceInWords(), ahead)
	if f.Algorithm == algorithm.TokenBucket.Name() || f.Algorithm == algorithm.LeakyBucket.Name() {
		a.addStep(RaiseBurst, 0, burst, "%s. %s: keep the rate and raise the burst from %d to %d.", of, mean, f.Burst, burst)
		return
	}
	a.addStep(TokenBucket, 0, burst, "%s. %s: use a token bucket with a burst of %d, which keeps the rate and lets them pass.", of, mean, burst)
}

// adviseLoose judges whether the limit lets pass what it is there to stop.
func (a *Answer) adviseLoose(f *Figures, by map[verdict.Class]part) {
	s := f.Sample
	if s.Clients < tightenClients || float64(s.P95) >= tightenShare*float64(f.Allowance) || by[verdict.Legitimate].clients > 0 {
		return
	}
	var bad, passed int64
	for _, c := range f.Clients {
		if e := c.Evidence; e != nil && (c.Verdict.Class == verdict.Runaway || c.Verdict.Class == verdict.Abusive) {
			bad++
			passed += e.Allowed
		}
	}
	if share(passed, f.Allowed) < loosePassed {
		return
	}
	a.addBadge(TooLoose)
	to := roundUp(2 * s.P95)
	a.addStep(Tighten, to, 0, "%s of what it lets pass is of %s that look runaway or abusive, while 95 in 100 of %d sampled clients use at most %s of %s. Tighten it: %d is still twice what those use.",
		percent(share(passed, f.Allowed)), writeCount(bad, "client"), s.Clients, percent(share(s.P95, f.Allowance)), f.allowanceInWords(), to)
}

// adviseShadow judges whether a limit that is tried may be enforced.
func (a *Answer) adviseShadow(f *Figures, by map[verdict.Class]part, all part) {
	if !f.Shadow || f.rangeLength() < readyRange || all.clients == 0 {
		return
	}
	wrong := by[verdict.Legitimate].refused + by[verdict.Shared].refused
	open := by[verdict.Undecided].refused
	if share(wrong, all.refused) > readyWrong || share(open, all.refused) > readyUndecided {
		return
	}
	a.addBadge(ShadowReady)
	bad := by[verdict.Runaway].clients + by[verdict.Abusive].clients
	a.addStep(Enforce, 0, 0, "In %s it would have refused %s, %s of them of the %s that look runaway or abusive. Enforce it, for a share of the keys first.",
		lasting(f.rangeLength()), writeCount(f.refusals(), "request"), percent(share(all.refused-wrong-open, all.refused)), writeCount(bad, "client"))
}

// quantile returns the least value that at least q of the values do not exceed.
func quantile(values []int64, q float64) int64 {
	slices.Sort(values)
	return values[max(int(math.Ceil(q*float64(len(values))))-1, 0)]
}

func share(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
