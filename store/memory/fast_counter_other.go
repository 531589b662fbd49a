//go:build !linux || !amd64

package memory

// readCounter returns the ticks of the processor's counter.
func readCounter() uint64 { return 0 }

// counterKeepsTime reports whether time can be told by the counter.
func counterKeepsTime() bool { return false }
