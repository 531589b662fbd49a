// Package sketch counts millions of keys in fixed memory, erring only upwards.
//
// It holds the approximate state of a rate limiter: structures whose size is
// chosen once, whatever the number of keys, and whose answer for a key is never
// below the truth. A limiter that trusts them can refuse too much and can never
// admit too much.
//
//   - [CountMin] answers "how many units did this key spend": never too few.
//   - [Window] is a whole limiter for one limit, "L units in any period W",
//     made of rotating generations of a CountMin and a Bloom filter each.
//   - [TAT] keeps theoretical arrival times of the generic cell rate algorithm.
//   - [SpaceSaving] names the heaviest keys of a stream.
//
// Use Window for a rule with more keys than an exact table may hold, or as the
// overflow of such a table; TAT as the overflow of a table of token buckets.
// Nothing here can give units back: cells are shared between keys, so lowering
// one key's cells could under-count another. Refunds need exact state.
//
// # Hashing
//
// Keys enter as one uint64 hash, computed by the caller with a seed that clients
// cannot know (hash/maphash with a seed made at start-up). Against an unkeyed
// hash a client could choose keys that collide with those of a victim.
// Positions follow from that one value by double hashing: start + i*step, where
// step is a strong mix of the hash. The chances given here are those of
// independent positions, from which double hashing differs by a term that
// vanishes as tables grow; that nothing is under-counted holds for any hash.
//
// Source: Kirsch and Mitzenmacher, "Less hashing, same performance: building a
// better Bloom filter", 2008, for double hashing in Bloom filters and count-min
// sketches.
//
// # Time and concurrency
//
// Time is an argument: int64 microseconds since the Unix epoch. The package
// reads no clock, starts no goroutine and keeps no global state. Window and TAT
// are safe for concurrent use, with one mutex per shard; CountMin and
// SpaceSaving are plain data that the caller locks.
package sketch
