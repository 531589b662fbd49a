// Package memory keeps the state of every key in this process: the default
// store.
//
// Guarantee: every decision is the one that the limit's algorithm defines, on
// all limits of a request or on none, whoever else decides at the same time; but
// for approximate limits, and for keys that find no room, which may be refused
// too early. The limits hold for this process alone: n processes with a store
// each admit n times as much.
//
// Nothing is written down. After a restart every key is as if never seen: a
// client may spend its limit once more, leases and bans have ended, and a
// reservation that was settled can be settled again.
//
// A key is kept as a 64-bit keyed hash of its text, never as the text itself.
// The hash is seeded anew in every process, so nobody can aim at a collision;
// the chance that any two of n keys of a limit share their state is about
// n*n/2^65: three in a million at ten million keys.
//
// State lies in tables of plain integers in which the garbage collector finds
// no pointer, so a hundred million keys cost it next to nothing. Tables grow by
// one small copy at a time, at any size, and shrink again when keys expire.
//
// The memory for state is bounded, see [Options.MaxBytes]; that of the process is
// about twice as much while a flood of keys makes tables grow, as the collector
// frees the old copies later. At the bound, expired keys make room first. A key
// that finds no room is then decided from a sketch, which can refuse too much and
// never admits too much; such decisions say so in their guarantee. A concurrency
// limit or a queue, of which no sketch can be made, refuses it. State that still
// matters is never dropped.
//
// # Locks
//
// A decision holds the locks of the segments of all its keys, taken in the order
// of their numbers. Under them, and one at a time, are taken: the lock of a
// directory, a slab, the spare cells, the versions of limits, a shard of a sketch. The lock of the set of
// sketches is never taken under that of a segment.
package memory
