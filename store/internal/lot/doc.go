// Package lot keeps what a node holds of the limits of a shared store: units and
// permits that the store has counted already, in lots of one fetch each.
//
// A lot is made by one thing only, the answer to a fetch, which is a plain spend. So
// whatever becomes of a node, at least as much is counted as the node can admit: what
// goes wrong afterwards loses units and never invents one. The node draws from a lot
// until its expiry and gives back what is free, at most once:
//
//	  fetch                 draw, undo, refund
//	    |                        +--+
//	    v                        |  v      expiry, idle, evicted,
//	(counted) ---- Entry.AdoptLot --> [held] -- reloaded, closed ------> surrender
//	                                                                    |
//	                                               no room  +-----------+
//	                                                        |           v
//	                      [stranded] <----------------------+       [waiting] <---+
//	                          ^                                         | Take    |
//	                          |    made again in vain                   v         | not
//	                          +------------------------------------ [returning] --+ sent
//	                                                                    |
//	                                                            answered v
//	                                                               [returned]
//
// A return that has no answer is made again until it has one, see transport.Repeater. No
// arrow leaves stranded: when the store may have forgotten whether it was carried out, the
// same units given back twice would be admitted twice. They count until the store
// forgets them. Only permits are offered again until they end by themselves: the store
// knows them by a name that is used once, and takes back a name any number of times.
// A lot of permits may go in parts: the store keeps under its name what holders have.
// A surrender makes the return; it names the lot by its ID and the limit by which it
// was counted, never by the limit of the day. The store drops a return after its
// receipt, and a bucket takes back less what has flowed in since the lot was charged.
//
// An [Entry] is one key: its lots, what the store last answered of it, and the call
// under way for it. The [Table] finds entries, and is bounded in bytes, as are the
// [Returns] that leave it and the [Refusals] beside it. For a new key the entry that
// was used longest ago leaves; if it may not, there is no room, and the store decides.
//
// A lock guards a shard of the table and everything in its entries. A decision by what
// is held takes that one lock, once. Locks are taken in this order and no other:
//
//	shard of the table --> Returns
//	shard of the table --> Flight
//	stripe of the Refusals, alone
//
// None of them is held while a store is called.
package lot
