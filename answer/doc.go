// Package answer says how a decision is told over HTTP: header fields on every
// answer, and a problem document where a request is refused.
//
// The sets of header fields are versioned, because the IETF draft behind them
// has changed its syntax four times; see [IETF08], [IETF07], [IETF06],
// [XRateLimit], [XRateLimitReset] and [None]. Sets can be combined, fields can
// have other names, and a reset can be told in the forms of [Styles].
//
// Retry-After is on every refusal that waiting helps against, whatever the set:
// whole seconds, rounded up, at least 1, never earlier than a t that stands
// beside it. Nothing that tells a time points earlier than the truth, and what
// is not known is left out. Jitter makes the waits of a refusal longer, all by
// the same number of seconds, never shorter.
//
// # Large quotas
//
// The draft warns of values that invite a burst: a million units left, and a
// second until there are more. Here the remainder is told as it is, for it is
// the one that is enforced; a service that a burst would harm needs a limit on
// bursts, a bucket or a second limit of a shorter period, which is then told
// too and, while it is the tighter one, first. What draws clients to one
// instant is the end of a window that they were refused in: Jitter spreads it,
// and a bucket or sliding window has none.
//
// # Other limiters
//
// An answer that passes through may carry fields of a limiter further on. What
// it says is not loosened: lists are added to, as the draft wants it; of fields
// that hold one number, that limiter's stand together which leaves the client
// less or, where both leave as much, makes it wait longer. A reset is understood
// in every form. RateLimit in the syntax of revision 07 and in that of 08 cannot
// be one field; again the stricter one stands.
package answer
