// Package memcached keeps the counts of fixed windows in Memcached, for those
// who have nothing else to share. It serves fixed_window limits aligned to the
// epoch or the calendar and no other: [Check] says so when rules are loaded.
//
// # Guarantee
//
// As long as the server keeps a key, no window admits more than Count, however
// many nodes and requests there are: every charge is one add or incr, which the
// server does one after another, and what brings the count above the limit is
// refused and taken back. Until it is taken back, a request that would have
// fitted can be refused; so can it be while a request under several limits is
// charged for some and not yet refused by another. All requests of cost 1 under
// one limit admit exactly Count.
//
// What makes it refuse too much until the window ends: a charge whose answer was
// lost, as it may have been made, and one that could not be taken back in time
// ([Stats].Kept). Neither is ever repeated blindly.
//
// What makes it admit too much: Memcached is a cache. A key that is evicted,
// flushed or lost with its server is as if never seen, so its window admits up
// to Count once more for each such loss, and as much again as is being taken
// back at that moment. A server started with -M answers with an error when its
// memory is full instead of evicting; [Store.Probe] tells of those that evict. A
// Refund of more than was spent, or one that ended in an error and was made
// again, can take off what others have spent.
//
// # Time
//
// Memcached cannot decide what time it is within a decision: the wall clock of
// each node names the window that it counts in. Of nodes whose clocks differ by
// s, for s around each boundary some count in the window that ends and some in
// the one that begins. Each still admits no more than Count, but only intervals
// no longer than Period-s, and not Period, are sure to see at most twice that.
// Counts are kept for 10 seconds after their window; a clock that is further
// behind than that counts from zero. Keep clocks in step (NTP) and windows well
// above the difference.
//
// A limit whose period was changed by a reload begins anew, as the end of the
// window is part of the key.
//
// # Servers
//
// Each key belongs to one of the servers by rendezvous hashing of their
// addresses, so all nodes must name the same servers the same way, in any order.
// Adding or leaving out one moves its share of the keys and no others; what moves
// counts from zero. A server that does not answer keeps its keys: they get errors,
// and the rule's failure policy decides, until it is back. Of several, one that fails
// five calls in a row is probed four times a second, and its keys get errors at once until
// it answers.
//
// A decision takes no longer than [Options.Timeout], waiting for a connection included,
// and what this process is late itself, a second at most; one that fails at the second
// server or later takes as much again at most, to take back what it has charged. No more calls of a server are
// under way than it has connections. What was sent is listened to for a second longer than
// its time, though its caller has gone.
package memcached
