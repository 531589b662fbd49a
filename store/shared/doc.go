// Package shared makes one limit hold across nodes that share a store: a [weir.Store]
// over any other.
//
// Each limit is decided in the way that its [params.Consistency] asks for, see
// docs/explanation/consistency.md: strict by one atomic call of the shared store, leased by units that
// the node fetched ahead, eventual by what the node may admit before it reports, local by
// the node's own store. No decision waits for the shared store longer than its budget, and
// what this process is late itself. While it does not answer, each limit is decided as its
// [params.StoreErrorPolicy] says, and the decision says so.
//
// A decision goes through phases, always in this order:
//
//	                    ops of a request
//	                           |
//	0 sort      check; a policy and a route for each           error: nothing was asked
//	                           |
//	1 recall    remembered refusals                ----refused-------------------> R
//	                           |
//	2 draw      deciders draw from what is held,   ----refused, left-------> U --> R
//	  local     then one call of the node's store, ----refused-------------> U --> R
//	            a look where charging leaves a trace
//	                           |
//	3 store     one call of the shared store       ----refused-------------> U --> R
//	                           |                   ----no answer--> outage decides
//	4 commit    what was looked at;                ----refused-------------> U --> R
//	            shadows; refunds into lots, and on the node's store
//	                           |
//	                        answers     U undoes draws and charges
//	                                    R charges bans and penalties for the refusal
//
// Nothing is given back before all that must allow has allowed: refunds are made in phase
// 4, which is reached by phase 3 alone, or by the call of phase 3 itself, which charges
// all or none.
//
// Who owns what, and when:
//
//   - The caller owns the ops. A decision copies those of each store, and copies the
//     answers back. The queue sends a copy of its own, as the caller may leave.
//   - A decision owns what its draws took, noted in a Hold for each op, until it ends: then
//     the units are the caller's, who may refund them, or they were undone.
//   - A decider owns what the node holds under its limits, in entries of the one Table.
//     Deciders know neither each other nor the store: they say Ask where they cannot
//     decide, and phase 3 asks. Their flights run on goroutines of the queue, for nobody's
//     sake: a caller who leaves ends none.
//   - What leaves the table is surrendered to the Returns; maintenance sends those, renews
//     the node's registration and pays the debts of outages. All of it goes through the one
//     queue, as calls that no decision waits for; returns and debts once each.
//   - The queue alone says whether a shard answers. A caller whose context ends says
//     nothing about that.
//   - The nodes are known from the shared store alone.
//
// Locks, in order; none is held while a store is called:
//
//	shard of the table --> Returns | Flight
//	shard of the queue, stripe of the Refusals, debts: each alone
//
// A decision that finds units on its node takes the first of them, once, and reads the
// clock once.
package shared
