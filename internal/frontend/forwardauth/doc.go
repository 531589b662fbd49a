// Package forwardauth answers proxies that ask, for each request, whether to let
// it through: nginx auth_request, Caddy forward_auth, Traefik ForwardAuth, HAProxy
// by Lua, Envoy ext_authz over HTTP. 200 with an empty body lets it through;
// anything else is the answer to the client, 429 when a limit refuses. The header
// fields that tell the limits are on both.
//
// What is asked about is known from what the proxy sends, in one of two forms:
//
//   - At the prefix itself, /auth, from header fields: X-Forwarded-Method, -Uri
//     and -Host, or X-Original-Method and X-Original-URI or -URL. The method and
//     path of the question itself mean nothing.
//   - Below the prefix, /auth/any/path, it is the question itself: its method, its
//     host, the path behind the prefix, its query. This is how Envoy asks, and the
//     header fields above mean nothing then: a client could have sent them.
//
// All of it is believed from trusted proxies only, see identity.ProxyOptions;
// others are answered 400. It is 400 and not 403, because nginx would take a 403
// for a refusal by a limit.
//
// # Parameters
//
// A proxy's configuration can say how it wants to be answered, behind a colon:
// /auth:deny=403&domain=shop, and /auth:domain=shop/any/path. They stand in the
// path, because the query may be the client's: Caddy, for one, keeps it unless it
// is told otherwise. See [Parameters].
package forwardauth
