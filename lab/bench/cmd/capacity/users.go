package main

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// user is what one user holds under one algorithm.
type user struct {
	limit string // in words
	// state in words: what the user holds when the heap is measured.
	state string
	// make returns the limit for n users.
	make func(n int) *weir.Limit
	// units that each user has spent, half of them half a period ago.
	units int
	// sizes are the numbers of users that are measured.
	sizes []int
	// design is what a design that this project began with estimates.
	design string
}

const (
	thousand = 1_000
	million  = 1_000_000
)

var (
	large  = []int{million, 10 * million}
	all    = []int{million, 10 * million, 100 * million}
	middle = []int{million}
	small  = []int{100 * thousand}
)

// users lists a user for every algorithm, in the order of the tables.
var users = []user{
	{limit: "100/minute", state: "1 unit", make: per(100, time.Minute, algorithm.TokenBucket), units: 1, sizes: large},
	{limit: "1,000 deep, 1 leaks a second", state: "1 unit", units: 1, sizes: all,
		make: func(int) *weir.Limit {
			return &weir.Limit{Algorithm: algorithm.LeakyBucket, Count: 1, Period: time.Second, Burst: 1000}
		},
		design: "50 bytes a user, 5 GB for 100 million"},
	{limit: "100/minute, queue of 100", state: "1 unit", make: per(100, time.Minute, algorithm.LeakyQueue), units: 1, sizes: large},
	{limit: "100/minute", state: "1 unit", units: 1, sizes: large,
		make:   per(100, time.Minute, algorithm.FixedWindow),
		design: "36 MB for 1 million"},
	{limit: "100/minute", state: "1 unit; it grows no more", make: per(100, time.Minute, algorithm.SlidingWindow), units: 1, sizes: large},
	{limit: "100/minute", state: "1 unit", make: per(100, time.Minute, algorithm.SlidingCounter), units: 1, sizes: large},
	{limit: "500/hour", state: "1 unit; it grows no more", units: 1, sizes: large,
		make:   per(500, time.Hour, algorithm.SlidingSubwindows),
		design: "1.6 GB for 1 million"},
	{limit: "500/hour", state: "500 units, a full log", units: 500, sizes: small,
		make:   per(500, time.Hour, algorithm.SlidingLog),
		design: "12 GB for 1 million"},
	{limit: "10/hour", state: "10 units, a full log", make: per(10, time.Hour, algorithm.SlidingLog), units: 10, sizes: middle},
	{limit: "10 at once", state: "1 lease", make: per(10, time.Minute, algorithm.Concurrency), units: 1, sizes: middle},
	{limit: "5 failures/15m", state: "1 failure", make: per(5, 15*time.Minute, algorithm.Lockout), units: 1, sizes: large},
	{limit: "1,000/minute", state: "one sketch, sized for a unit of every user", units: 1, sizes: large,
		make: func(n int) *weir.Limit {
			return &weir.Limit{Algorithm: algorithm.Approximate, Count: 1000, Period: time.Minute,
				Params: params.Params{Sketch: params.SketchOptions{Expect: int64(n)}}}
		}},
}

func per(count int64, period time.Duration, a weir.Algorithm) func(int) *weir.Limit {
	return func(int) *weir.Limit { return &weir.Limit{Algorithm: a, Count: count, Period: period} }
}

// name is the algorithm's.
func (u user) name() string { return u.make(million).Algorithm.Name() }

// leases reports whether units are leases.
func (u user) leases() bool {
	ok := u.make(million).Algorithm.Traits()&weir.Leases != 0
	return ok
}
