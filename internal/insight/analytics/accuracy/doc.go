// Package accuracy says how well an algorithm kept its limit, and how others would
// have on the same traffic.
//
// It works on the single decisions of sampled keys, which records of package event
// have as arrivals, and compares them with the exact meaning of a limit: at most
// Allowance units in any half-open interval (t-Period, t].
//
// Everything here is pure: it keeps no state of keys and asks nobody. Time and
// memory grow with the number of arrivals of one key, which the caller bounds.
package accuracy
