// Package httplimit puts a [weir.Limiter] around HTTP: in front of handlers,
// whatever routes to them ([Middleware]), and behind clients, to keep a fleet
// within what others allow it ([Transport]).
//
// A request is identified, decided, and answered 429 or let through; what it
// holds is held until it is over, and what it was charged is settled by how it
// ended. A gateway that is no http.Handler of this kind does the same with
// [Middleware.Enter] and [Visit.Leave].
//
// What a request was granted under a concurrency limit ends when its handler
// returns: also when it panics, when the client hangs up, and when the
// connection was hijacked. A handler that hijacks and goes on in a goroutine of
// its own after it returned is no longer counted; one that serves the connection
// before it returns is.
package httplimit
