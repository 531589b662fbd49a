package traffic

import (
	"math"
	"math/rand/v2"
	"time"
)

// reaction is what an actor does when it is refused.
type reaction uint8

const (
	// ignores: nothing.
	ignores reaction = iota
	// obeys: it waits as long as it is told, and tries again.
	obeys
	// backsOff: it waits for a moment, twice as long each time, and tries again.
	backsOff
	// leaves: people look at the error and come back later.
	leaves
	// insists: it tries the same again at once, whatever comes.
	insists
)

// actor sends requests on its own.
type actor struct {
	id        int32
	name      string
	rng       *rand.Rand
	addresses []string
	agents    []string
	user      string
	tier      string
	reaction  reaction
	// paths it asks for: one of them, or numbered ones below it if many.
	paths []string
	many  int
	// status draws how its requests are answered.
	status func(*rand.Rand) int
	// from and to are when it is there.
	from, to int64
	// act sends what the actor wants to at an instant, and returns how long until
	// the next.
	act func(s *Scenario, a *actor, now int64) time.Duration

	until   int64 // does not act before
	backoff time.Duration
}

func (a *actor) address() string { return a.addresses[a.rng.IntN(len(a.addresses))] }

func (a *actor) agent() string { return a.agents[a.rng.IntN(len(a.agents))] }

// wake lets the actor act, unless it waits.
func (a *actor) wake(s *Scenario, now int64) {
	if now >= a.to {
		return
	}
	if now < a.until {
		s.push(turn{at: a.until, actor: a.id})
		return
	}
	next := a.act(s, a, now)
	s.push(turn{at: now + max(next.Microseconds(), 1), actor: a.id})
}

// send sends a request after a while.
func (a *actor) send(s *Scenario, now int64, after time.Duration) {
	t := turn{at: now + after.Microseconds(), actor: a.id, path: 1 + a.rng.Int32N(int32(len(a.paths)))}
	if a.many > 0 {
		t.number = 1 + a.rng.Int32N(int32(a.many))
	}
	s.push(t)
}

// asks returns the path that a turn asks for.
func (a *actor) asks(s *Scenario, t turn) string {
	path := a.paths[t.path-1]
	if t.number == 0 {
		return path
	}
	below := s.below[path]
	for int(t.number) > len(below) {
		below = append(below, path+"/"+number(len(below)))
	}
	s.below[path] = below
	return below[t.number-1]
}

// hear tells the actor what became of a request.
func (a *actor) hear(s *Scenario, t turn, q *Request, got Answer) {
	failed := got.Allowed && q.Status >= 500
	if got.Allowed && !failed {
		a.backoff = 0
		return
	}
	switch a.reaction {
	case obeys:
		if failed {
			a.back(s, t)
			return
		}
		a.again(s, t, got.RetryAfter+a.between(5*time.Millisecond, 200*time.Millisecond))
	case backsOff:
		a.back(s, t)
	case leaves:
		if !failed {
			a.until = max(a.until, t.at+a.between(8*time.Second, 40*time.Second).Microseconds())
		}
	case insists:
		t.tries++
		t.at += a.between(40*time.Millisecond, 250*time.Millisecond).Microseconds()
		s.push(t)
		a.until = max(a.until, t.at+800*time.Millisecond.Microseconds())
	}
}

// back waits twice as long as the last time.
func (a *actor) back(s *Scenario, t turn) {
	a.backoff = min(max(2*a.backoff, 250*time.Millisecond), 30*time.Second)
	a.again(s, t, a.between(a.backoff/2, a.backoff))
}

// again sends the request once more after a while, and nothing meanwhile. It gives
// up after eight times.
func (a *actor) again(s *Scenario, t turn, after time.Duration) {
	at := t.at + after.Microseconds()
	a.until = max(a.until, at+1)
	if t.tries < 8 {
		t.at = at
		t.tries++
		s.push(t)
	}
}

// between draws a duration.
func (a *actor) between(least, most time.Duration) time.Duration {
	return least + time.Duration(a.rng.Int64N(int64(most-least)+1))
}

// around draws from an exponential distribution, cut at six times the mean.
func (a *actor) around(mean time.Duration) time.Duration {
	return time.Duration(min(a.rng.ExpFloat64(), 6) * float64(mean))
}

// steady acts once every so long, a little more and a little less often as time
// goes by.
func steady(every time.Duration, jitter, wobble float64) func(*Scenario, *actor, int64) time.Duration {
	return func(s *Scenario, a *actor, now int64) time.Duration {
		a.send(s, now, 0)
		slow := 1 + wobble*math.Sin(float64(now-a.from)/1.7e8)
		return time.Duration(float64(every) * slow * (1 + jitter*(2*a.rng.Float64()-1)))
	}
}

// pages acts as people with browsers do: a page and what belongs to it at once,
// and then a look at it. They come in visits.
func pages(parts int, look, visit, pause time.Duration) func(*Scenario, *actor, int64) time.Duration {
	var ends int64
	return func(s *Scenario, a *actor, now int64) time.Duration {
		if ends == 0 {
			ends = now + a.around(visit).Microseconds()
		}
		a.send(s, now, 0)
		for range a.rng.IntN(parts + 1) {
			a.send(s, now, a.between(30*time.Millisecond, 900*time.Millisecond))
		}
		if now > ends && pause > 0 {
			ends = 0
			return a.around(pause)
		}
		return a.between(look/3, 2*look)
	}
}

// batches sends n requests one after the other, and then rests.
func batches(n int, took, rest time.Duration) func(*Scenario, *actor, int64) time.Duration {
	left := n
	return func(s *Scenario, a *actor, now int64) time.Duration {
		a.send(s, now, 0)
		if left--; left <= 0 {
			left = n
			return a.around(rest)
		}
		return a.between(took/2, 2*took)
	}
}

// ramp grows from a tenth to all of a rate in the course of a time, with waves.
func ramp(every, length time.Duration) func(*Scenario, *actor, int64) time.Duration {
	return func(s *Scenario, a *actor, now int64) time.Duration {
		a.send(s, now, 0)
		grown := min(float64(now-a.from)/float64(length.Microseconds()), 1)
		wave := 1 + 0.5*math.Sin(float64(now)/9e7)
		return a.around(time.Duration(float64(every) / ((0.1 + 0.9*grown) * wave)))
	}
}

// waves sends at a rate that changes as the day does, or as business does.
func waves(every, length time.Duration) func(*Scenario, *actor, int64) time.Duration {
	return func(s *Scenario, a *actor, now int64) time.Duration {
		a.send(s, now, 0)
		wave := 1 + 0.8*math.Sin(2*math.Pi*float64(now)/float64(length.Microseconds()))
		return a.around(time.Duration(float64(every) / wave))
	}
}

// daily lets an actor sleep at night: it acts in so many hours from one on.
func daily(from, hours int64, act func(*Scenario, *actor, int64) time.Duration) func(*Scenario, *actor, int64) time.Duration {
	const hour, day = int64(3600e6), int64(86400e6)
	return func(s *Scenario, a *actor, now int64) time.Duration {
		if since := (now%day - from*hour + day) % day; since >= hours*hour {
			return time.Duration(day-since)*time.Microsecond + a.around(10*time.Minute)
		}
		return act(s, a, now)
	}
}
