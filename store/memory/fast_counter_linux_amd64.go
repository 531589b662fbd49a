package memory

import (
	"bytes"
	"os"
)

// readCounter returns the ticks of the processor's time-stamp counter. It may be read
// before what precedes the call in the program.
//
//go:noescape
func readCounter() uint64

// counterKeepsTime reports whether the kernel keeps time by the counter: then it goes
// at one rate, also while a processor sleeps, and is the same on all of them.
func counterKeepsTime() bool {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && string(bytes.TrimSpace(source)) == "tsc"
}
