// Package weir decides whether a request may pass: a rate limiter for one process
// or a fleet.
//
//	lim, err := weir.New(memory.New(memory.Options{}),
//		weir.Limits{weir.PerMinute(100, algorithm.SlidingWindow)}, weir.Options{})
//	d, err := lim.Take(ctx, "user:42", 1) // spend one unit of a key
//	if !d.Allowed() { ... }               // refused: d.RetryAfter says for how long
//
// Callers need [Limiter], [Limit], [Request] and [Decision]. An error means that
// nothing was decided; its Decision refuses, as the zero Decision does. The other
// names are for those who write [Rules], a [Store], an [Algorithm] or an [Observer]:
// rules say which limits a request meets, a store keeps integers by key and tells the
// time in microseconds, an algorithm is a pure step over them.
package weir
