package algorithm

import (
	_ "embed"

	"github.com/weirlimit/weir"
)

// SpentScript is the text of the twins of [weir.Carrier]: Lua functions that say what rows
// count, and make rows that do.
//
//go:embed spent.lua
var SpentScript string

// Scripted is an algorithm with a twin in Lua, for stores that decide where the
// state is. The twin decides as Step does, on the state as such a store keeps it;
// Describe, in Go, makes a Decision of the state that the twin tells.
//
// Every algorithm but [Approximate] has one.
type Scripted interface {
	weir.Algorithm
	// Script returns the twin.
	Script() Script
	// Consts appends what the twin is told of l, and returns until when that
	// holds, in microseconds since the Unix epoch. now is the caller's time,
	// which need not be the store's.
	Consts(dst []int64, l *weir.Limit, now int64) (consts []int64, until int64)
	// Span appends what the twin is told of a cost of 0 to weir.MaxCost.
	Span(dst []int64, l *weir.Limit, cost int64) []int64
	// Describe returns the decision on a, at its Now, that a twin's answer stands
	// for: whether it allowed, and the state afterwards.
	Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision
}

// Script is a twin: the text of one local Lua function,
//
//	name(key, row, now, verb, id, A, l, a) -> write, expiry, allowed, state...
//
// key is the Redis key. now is in microseconds; verb is the text of a weir.Verb
// and id that of an Ask's ID. A holds numbers, or texts of them: the constants
// begin after index l, the span of the cost after index a.
//
// row is what GET says, if the row is a string. The function then neither reads
// nor writes: write is the new string (or a number that is one), the empty string
// for a key as never seen, or false when nothing is to be written. If the row is a
// collection of Redis, row is nil, the function reads and writes it itself,
// writes nothing under the verb Peek, and write says whether it has written.
//
// expiry is the instant from which the key is as if never seen, in whole
// microseconds, rounded up; it counts when something is written. allowed is 1 or
// 0. state is what Describe gets, all integers.
//
// Numbers are doubles: nothing above 2^53, and no division but of multiples. A
// number becomes text as an argument of redis.call, where it keeps all digits;
// Lua's own operator keeps 14.
type Script struct {
	// Name of the function.
	Name string
	// Text defines it.
	Text string
	// Spans is how many words Span appends, States how many the function tells of
	// the state.
	Spans, States int
	// Collection: the row is a list or a sorted set, not a string.
	Collection bool
}

// forever is the until of constants that do not change.
const forever = 1<<63 - 1

// oneCost is the span of algorithms that are told the cost as it is.
func oneCost(dst []int64, cost int64) []int64 { return append(dst, cost) }

// describeCells describes the cells that a decision left: as what a Peek says of
// them, for it refuses for the same reason; but whether the decision itself
// allowed cannot be seen from what it left.
func describeCells(cells []int64, l *weir.Limit, a weir.Ask, allowed bool) weir.Decision {
	a.Verb = weir.Peek
	d := l.Algorithm.Step(cells, l, a)
	if allowed {
		d.RetryAfter = 0
	}
	return d
}
