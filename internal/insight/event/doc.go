// Package event tells what was decided: who was limited, by which rule, how
// often, and how much passed beside it.
//
// An [Observer] hears every decision of a limiter and turns them into events of
// two kinds. A [Record] tells of one client under one limit: each decision that
// refused, delayed, marked, shadow-refused or was degraded, and a sample of those
// that allowed. A [Rollup] tells of one limit in one minute, and its counts are
// exact whatever happens to the records.
//
// Beside the decision a record tells, where the front end knows it, who asked for
// what ([About]) and how what passed was answered ([Answers]), and of the sample
// when each single request came ([Arrival]).
//
// Hearing a decision never blocks, locks or allocates. Records wait in a ring of
// fixed size; one that finds it full is dropped, and counted. What leaves the
// ring is merged: a client that is refused a thousand times a second is one
// record with a count of a thousand. Events go to a [Queue], which may be slow or
// gone: what it has not taken is kept up to a bound, the rest is dropped, and
// counted, roll-ups last.
//
// Keys, addresses and users are told as keyed hashes (HMAC-SHA-256, cut to 128 bits)
// unless [Options.Unhashed] asks for them as they are.
package event
