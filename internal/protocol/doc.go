// Package protocol checks the protocols of nodes that share a store, as machines: states
// of a few small integers, and all steps between them. [Explore] visits every state that
// can be reached, in the order of the distance from the start, so that the trace to a
// state that breaks an invariant is the shortest. A second pass looks for a state from
// which no idle one can be reached: no message in flight, all units returned.
//
//	machine  what is checked, whatever is lost, late, repeated or crashes
//	lease    no window admits more than the limit and what a failover lost
//	bucket   what is drawn from lots keeps to the burst, with returns
//	price    no less time is charged than nodes have paid for, across reloads
//	tally    an eventual limit is overshot by no more than its bound
//	number   a fetch that is repeated by its number brings its units once
//	permit   no more permits are held than the limit
//	settle   each slot of a reservation is charged once, all with one cost
//	homing   a cost is charged once where a key of a ring is, though its server comes and goes
//	outage   a share is handed out once in an outage, and all of it is owed, and paid once
//	breaker  a shard that answers in time stays closed
//
// Each breakage is a flag of its machine, and a test that sees it caught after so many
// steps: what a protocol must not do is written down as code.
//
// # States
//
// A state is a comparable struct. Times are relative, in ticks from now or from the start
// of the window, and ghosts (what was admitted, what was lost) are those of the present
// window, so that a machine has finitely many states and runs for ever. Nodes, messages
// and names are put into a canonical order: states that differ in it only are one.
// Transitions are pure functions of small structs (lot, tallied, share), so that the real
// ones can take their places.
//
// Explore keeps 64 bits of each state, by a hash with a new seed in each run. Two of n
// states have the same with a probability of about n*n/2^65, 1 in 3,700 for 10^8 and 1 in
// 6 million for 2.5 million; then one of them, and what only it leads to, is not looked at.
//
// # What was explored
//
// go test explores small machines whole, with the second pass, in some 15 s of one core.
// The long form explores larger ones until all was seen or 10^8 states were, and prints
// what it has seen, the seconds and the memory:
//
//	WEIR_SOAK=1 GOMEMLIMIT=9GiB go test -count=1 -timeout 3h -v ./internal/protocol
//
// It takes 1.6 GB for the hashes, as much again at most for states that wait, and an hour
// of one core; where there are fewer than 2.5*10^7 states, the second pass as well. On 23
// November 2026 it printed this, on a core of a busy machine, with no violation. MB are of
// the first pass:
//
//	machine  bounds                                                     states           s     MB
//	lease    limit 3, windows of 3 ticks, drift and suspend          3,233,943  whole   18  1,549
//	lease    the same, crashes and failovers                       100,000,000  cut    491  2,171
//	bucket   burst 7, lots of 3 ticks                                2,393,926  whole   39  1,545
//	price    1 or 2 ticks a unit, 6 ticks owed                       2,208,832  whole   19  1,547
//	tally    limit 1, overshoot 1, windows of 2 ticks                6,809,757  whole   68  1,545
//	tally    limit 1, overshoot 2, windows of 2 ticks, crashes      15,871,983  whole  154  1,558
//	tally    limit 1, overshoot 2, windows of 2 ticks, failovers   100,000,000  cut    281  2,229
//	tally    limit 2, overshoot 4, windows of 2 ticks, all faults  100,000,001  cut    685  3,345
//	number   limit 8 (28 November)                                     670,815  whole    9  1,540
//	permit   limit 3, periods of 2 ticks, crashes                   21,912,313  whole  205  1,627
//	settle   two settlers, two slots (28 November)                       49,862  whole    0     51
//	outage   limit 6 (28 November)                                 28,166,244  whole  104  1,558
//	breaker  3 failures, budget 2, timeout 4                            40,108  whole    1  1,536
//
// Those that were cut were seen as far as 20 to 31 steps from the start. The second pass
// was made of all that are whole; it takes as long again, and 3 GB for permit.
//
// Two nodes and two messages in flight; in price three messages, in number one node and
// three, in outage no more than is said there, in settle two of each settler to each slot.
//
// # What it has found
//
// In bucket: what flows into a full bucket while a lot is alive is there twice, once in the
// lot, and stays so until the bucket was full again. So fetches leave the inflow of a lot's
// life, or lots end before (flag outlives); and then a return must not make the bucket full
// earlier than nodes reckoned that fetched after it (flag late).
//
// In number: a late answer may be adopted, or its fetch be repeated by its number, and not
// both (flag lateAdopted).
//
// In lease: when time was lost, the fetches under way must end as the lots do
// (flag flightsSurvive), unless the node's clock is put forward by what was lost.
package protocol
