// Package suggest finds limits in traffic that was seen: how much each client
// asked for at its busiest, and who would be caught by a limit here or there.
//
// It counts in windows aligned to the clock, exactly, as a fixed_window limit
// would.
package suggest
