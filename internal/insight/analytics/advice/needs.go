package advice

import "time"

// What must be there before something may be said, so that nothing is said of
// noise, and the thresholds.
const (
	// A limit that refused nothing is one that is never hit only if enough was asked
	// of it, over a day at least: loads have their busy hour.
	idleDecisions = 1000
	idleRange     = 24 * time.Hour
	// Nobody comes near a limit when the busiest of at least looseClients sampled
	// clients used less than one part in ten of it.
	looseClients = 20
	looseShare   = 0.1

	// A limit that refused fewer than someRefusals times is not judged by what it
	// refused, nor one whose refusals went to fewer than someClients.
	someRefusals = 100
	someClients  = 5

	// A limit is too tight when a fifth of its refusals went to clients that look
	// legitimate, or when the 95th percentile of the peaks of at least looseClients
	// sampled clients is above 80 % of it: with ordinary growth the limit is in their
	// way next.
	tightRefusals = 0.2
	tightPeak     = 0.8

	// Bursts are what is refused when a half of the legitimate clients that were
	// refused ask for less than half of the allowance in the mean.
	burstClients = 0.5
	burstMean    = 0.5
	// Whoever is refused asks for less than he would: a burst is proposed that is
	// twice what was seen.
	burstTimes = 2

	// Shared addresses are the matter when they have a fifth of the refusals.
	sharedRefusals = 0.2

	// A limit may be tightened when 95 in 100 of at least tightenClients sampled
	// clients stay below a quarter of it, nobody that looks legitimate was refused, and
	// a fifth of what passes is of clients who deserve refusal.
	tightenClients = 100
	tightenShare   = 0.25
	loosePassed    = 0.2

	// A shadow is ready after a day with at least someRefusals, of which at most one
	// in a hundred would have hit clients that do not deserve it, and one in twenty
	// such that nobody can tell.
	readyRange     = 24 * time.Hour
	readyWrong     = 0.01
	readyUndecided = 0.05

	// A limit flaps when it trips ten times or more, lets go again within five minutes
	// in the mean, and does not refuse most of the time anyway.
	flapTrips   = 10
	flapMinutes = 5
	flapShare   = 0.5

	// What is known of the limited clients stands for all of them when it covers
	// nine in ten of the refusals.
	coverage = 0.9
)
