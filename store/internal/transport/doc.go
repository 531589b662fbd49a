// Package transport carries calls to a store that is shared, and is the only queue
// between a decision and the code that speaks to the servers.
//
// A shard is the part of a store that fails as one: a server, or the primary of some
// keys. Each has calls that wait, calls that are sent, workers and a circuit breaker of
// its own, so a shard that stalls takes nothing from the others.
//
//	caller           shard (mu)                            worker        driver
//	------           ----------                            ------        ------
//	Do --enter-----> waiting: c1 c2 c3 ----next----------> batch --Send--> c1 c2 c3
//	  |              byKey:   k -> c2                                       |
//	  |                           c2.behind: c7 c9                          |
//	  |              flight:  c1 c2 c3 <--- judge (at sent+budget)          |
//	  +-Park <------ gate <----------------- finish <-----------------------+
//
// Who owns a call, and when:
//
//   - The caller fills it and hands it over with enter. Until its gate opens, it may do
//     one more thing with it: leave.
//   - The shard owns it while it waits: in waiting, or behind the call under way for its
//     key. It leaves that state once, under the shard's lock: to a worker, or answered
//     without having been sent, since its caller left, its key was released or the
//     breaker opened. So a call is sent at most once, and a call that was never sent is
//     known not to have run.
//   - The driver owns its Ops from Send to Finish. A batch is sent as one; each of its
//     calls is finished on its own. What [Tuning].Send puts before a driver may carry one
//     out by others that nobody judges, with [Call.AskDriver].
//   - With Finish it is its caller's again. If that has left, the callback that it gave
//     to [Result.WhenEnded] gets the answer, and nobody uses the call a second time.
//
// A shard is judged by its own record only: a foreground call that has no answer when its
// budget is over since it was sent counts as one failure, and so does a background call
// after its timeout, whoever still waits. What is late within a budget of another is one
// failure with it: five budgets of silence open a breaker, a moment of it does not, though a
// hundred calls wait. A caller judges its own call while it waits. What
// callers have left in flight is judged by the watcher, a goroutine that ends with the last
// of it. A caller whose own context ends says nothing about the shard. The watcher and the
// callers wait with Park, which goes on for as long as this node was late itself: a node
// that is short of processor time is not evidence against the store. For the same reason the time
// in which calls waited and none was in flight is added to what their callers wait.
//
// A call that must not run twice goes by [Repeater.CallOnce]: a mark in the store says whether it ran,
// so that it is made again until it has an answer. What is decided without an answer, and
// charged or given back afterwards, goes that way.
//
// The breaker opens by failures and answers at once what waits. A prober then asks the
// driver from time to time, and closes it by the first answer in time. A probe that the
// driver does not end is left behind; so many of them may be.
//
// A shard's lock is held while its lists change, never while the driver runs, a callback
// is called or somebody waits. All time, goroutines and waiting go through [Env], and no
// order depends on that of a map, so a simulation that replaces Env is repeatable.
package transport
