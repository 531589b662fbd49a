// Package answer says how a decision is told over HTTP: header fields on every
// answer, and a problem document where a request is refused.
//
// The sets of header fields are versioned, because the IETF draft behind them
// has changed its syntax four times:
//
//   - [IETF08]: RateLimit and RateLimit-Policy in the syntax that
//     draft-ietf-httpapi-ratelimit-headers has had from revision 08 to 11.
//   - [XRateLimit]: X-RateLimit-Limit and X-RateLimit-Remaining, and
//     X-RateLimit-Retry-After on refusals.
//   - [None]: no fields but Retry-After.
//
// Retry-After is on every refusal that waiting helps against, whatever the set:
// whole seconds, rounded up, at least 1, never earlier than a t that stands
// beside it.
package answer
