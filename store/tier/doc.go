// Package tier makes one limit hold across nodes that share a store: a
// [weir.Store] over any other.
//
// It decides each limit in the way that its [weir.Consistency] asks for:
//
//   - strict: one atomic call of the shared store per decision. Calls for one key
//     that come together are made as one, and a refusal is remembered for as long
//     as it is certain to hold.
//   - leased: the node fetches units ahead and spends them on its own. Never more
//     is admitted than the limit. The default, where the algorithm is a
//     [weir.Lender] and a node's share of the limit is worth a fetch.
//   - local: the node counts alone.
//
// No decision waits for the shared store longer than its budget, whatever the
// store does. While the store does not answer, each limit is decided as its
// [weir.StoreErrorPolicy] says, and the decision says so.
//
// Locks: a shard of the combiner, a shard of the leases, a stripe of the answers
// and the debts are each held for a few words, one at a time, and never while a
// store is called.
package tier
