// Package live tells what a server decides while it decides it: a stream of
// server-sent events, its handler, and its reader.
//
// The kinds are those of [event.Event], record, rollup and loss, with their JSON as
// data; a [State] every second; and missed, with a [Dropped], where a reader was too
// slow for some.
package live
