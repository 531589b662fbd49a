// Package simulator runs a fleet of nodes over one store in one goroutine at a time, by a
// seed: what shares a store runs as it is, and only time, waiting and the servers are
// replaced.
//
//	clients ---> node: Table, Clock, Returns, deciders, Queue ---> driver ---> server
//	                          |  Env: Now, Go, Park                  faults     one store
//	                          v                                                 in memory
//	              scheduler: true time, tasks, the seed
//
// All that waits does so with Park. A task that parks hands its turn back; the seed
// chooses among those that can go on, and when none can, time jumps to the next that will.
// Nothing goes by a map's order, a hash of the process or the real time, so a seed is one
// run: its events have one hash, and a seed that fails prints them.
//
// The oracles know all that was admitted, by the true time. See oracle_test.go.
package simulator
