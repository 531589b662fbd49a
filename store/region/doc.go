// Package region makes several regions hold a limit together, each with a store of its
// own. No decision waits for another region.
//
// A [Store] stands around the region's own store. It counts what the region admits of a
// key in a counter that only grows, one for each epoch, in the same call that charges the
// limit, and pushes to the others how far that has come:
//
//	spend ----> Take: [ limit | own, at most cap above reported | reported ] --> own store
//	                                                                               ^
//	         push, by turns of the region's nodes: own, reported, sent ------------+
//	           |
//	           +--> peer: [ copy: from was to own | limit: force own - was ] -> its store
//	           +--> peer: ...
//	           all have answered: reported = own
//
// A peer raises its copy and charges the difference to its own state in one step, so a
// push that comes twice, late or after a later one charges nothing twice. A region admits
// a unit only while its counter is at most cap above what every other region is known to
// have. So when the last unit is admitted anywhere, that region knows all but cap units of
// each of the others: all together admit the limit and (regions-1)*cap, max_overshoot.
//
// An epoch is a window of the limit, or where it has none as long as units can count. Where
// two epochs meet both caps may be in use, so each is half. Units that are given back are
// taken off the region's own counter, if the refund names their epoch, and not off the
// copies of others, which may be too high for a while and never too low.
//
// Under a store of package shared that one's queue drives the own store's driver, and each
// call is carried out there with its counters. Reports go by queues before the drivers of
// the stores, one for each.
//
// Who owns what: the own store owns all counters. A node remembers, bounded in bytes, what
// it has heard of the counters of keys in use, which is allowed to be old: it only decides
// when to push and by which reserve to ask, and an old one refuses too much. One node of a
// region pushes at a time, as the turn is a limit of the own store too.
package region
