// Package tier makes one limit hold across nodes that share a store: a
// [weir.Store] over any other.
//
// It decides each limit in the way that its [params.Consistency] asks for:
//
//   - strict: one atomic call of the shared store per decision. Calls for one key
//     that come together are made as one, and a refusal is remembered for as long
//     as it is certain to hold.
//   - leased: the node fetches units ahead and spends them on its own. Never more
//     is admitted than the limit, unless the store loses what it had counted. The default, where the algorithm is a
//     [weir.Lender] and a node's share of the limit is worth a fetch. Places under a
//     concurrency limit are held for as long as whoever gets one may keep it, if the
//     limit says that it is leased.
//   - eventual: the node admits on its own and tells the shared store after. Never
//     more than so many units too many are admitted, whatever the load and however
//     long nobody can be told: nodes get their shares of that number from the
//     shared store.
//   - local: the node counts alone.
//
// Several regions, each with a shared store of its own, tell each other what they
// admitted, and hold a limit within what an eventual one may be overshot by.
//
// No decision waits for the shared store longer than its budget, whatever the
// store does, and what this process is late itself, a second at most; where a prompt
// store asks several servers one after the other, no longer than that for each. While the store does not answer, each limit is decided as its
// [params.StoreErrorPolicy] says, and the decision says so.
//
// The node's time is a monotonic clock's, and goes on by what the wall clock moved
// further while the machine was suspended.
//
// Nothing but spends, incurred costs, refunds and looks is asked of the shared store:
// it need not know that it is shared. Nodes find each other by leases in it.
//
// Locks: a shard of the leases, a shard of the places, a
// stripe of the refusals, the debts, what is to be given back, what is to be told, the
// epochs of a limit and what other regions are to be told are each held for a few
// words, and never while a store is called. Those after the debts are taken under a
// shard of the leases or places, no other under another.
package tier
