// Package grpclimit puts a [weir.Limiter] around gRPC: in front of a server's
// methods ([Middleware]), and behind clients, to keep a fleet within what others
// allow it ([Client]). Both are interceptors of calls and of streams.
//
// A call is identified, decided, and answered RESOURCE_EXHAUSTED or let through;
// what it holds is held until it is over, and what it was charged is settled by
// how it ended.
package grpclimit
