package measure

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
)

// Heap returns the live heap in bytes, after two garbage collections: the
// second frees what the first finalized.
func Heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// ForcedGC runs the garbage collector n times and returns its wall time in
// milliseconds.
func ForcedGC(n int) Spread {
	samples := make([]float64, n)
	for i := range samples {
		start := time.Now()
		runtime.GC()
		samples[i] = float64(time.Since(start)) / float64(time.Millisecond)
	}
	return SpreadOf(samples)
}

// Resident returns the resident memory of this process in bytes after what is
// free was given back, or 0 where the system does not tell.
func Resident() int64 {
	debug.FreeOSMemory()
	return procBytes("/proc/self/status", "VmRSS:")
}

// MachineMemory returns the memory of this machine in bytes, or 0 where the
// system does not tell.
func MachineMemory() int64 { return procBytes("/proc/meminfo", "MemTotal:") }

// FreeMemory returns how many bytes programs can still get, or 0 where the
// system does not tell.
func FreeMemory() int64 { return procBytes("/proc/meminfo", "MemAvailable:") }

// procBytes reads a line such as "VmRSS:   1234 kB".
func procBytes(file, field string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(text, []byte(field))
	if !ok {
		return 0
	}
	words := bytes.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	kb, err := strconv.ParseInt(string(words[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}
