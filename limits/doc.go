// Package limits finds the limits that a request meets.
//
// A loader fills a [Domain] with the rules of one domain; [NewLayer] makes it ready to be
// matched, and [NewSet] lays layers beside each other: a request must pass the limits of
// all layers of its domain. A [Set] is immutable and implements weir.Rules: matching a
// request costs a few look-ups per entry, however many rules there are, and allocates
// nothing. [Set.Explain] says why a request meets what it meets.
//
//	rules files, words, routes, load shedding          loaders
//	                     |
//	                 limits.Set                        the one matcher
//	                     |
//	 overlay, explain, metrics, events, checks         readers, by Ref
//
// Package rules loads files.
package limits
