// Package client asks a Weir service whether requests may pass, and spares it
// and its callers what can be spared.
//
// A [Client] asks over HTTP, or over gRPC with package client/grpc. It
// remembers refusals until they end, waits as it is told and not at the same
// instant as everybody else, and asks a service that is overloaded less. A
// service that does not answer costs a bounded time per call, and none once the
// breaker is open; what is decided then is set by [Options].Fallback, and every such
// [Decision] says so: the limiter is not to be what makes its callers fail.
//
// A [Transport] does the same for callers of any API that answers 429,
// Retry-After or RateLimit fields, whoever limits there.
package client
