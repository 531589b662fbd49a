// Package weir decides whether a request may pass: a rate limiter for one
// process or a fleet.
//
// A [Limiter] joins three things. [Rules] say which limits a request meets. A
// [Store] keeps what each key has spent and tells the time. An [Algorithm] is a
// pure step over the few integers that a store keeps for a key. Each can be
// changed without the others: every algorithm works on every store.
//
//	lim, err := weir.New(memory.New(memory.Options{}),
//		weir.Limits{weir.PerMinute(100, algorithm.SlidingWindow)}, weir.Options{})
//	...
//	if d, err := lim.Take(ctx, "user:42", 1); !d.Allowed() {
//		// refused: come back after d.RetryAfter; or err says why nothing was decided
//	}
//
// Use [Limiter.Take] to count against one key; use [Limiter.Decide] with a
// [Request] where rules decide which limits apply, [Limiter.Wait] to be held
// back instead of refused.
//
// A refusal is not an error. An error means that no decision was made; the
// [Decision] that comes with it refuses, and so does the zero Decision. Whoever
// would rather let requests pass while the store fails looks at the error first.
// A refused request changes nothing, so its RetryAfter is exact.
//
// Arithmetic is on integers throughout: time in microseconds since the Unix
// epoch, spending in whole units. Every limit states what it guarantees, see
// [Guarantee].
package weir
