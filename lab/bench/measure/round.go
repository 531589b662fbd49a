// Package measure takes the figures: processor time and wall time of an
// operation, heap per key, pauses. It runs on Unix systems.
package measure

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Round is what one run of many equal operations took.
type Round struct {
	// CPU and Wall are nanoseconds per operation. CPU is user and system time
	// of the whole process, of all its threads.
	CPU, Wall float64
	// Allocs is heap allocations per operation.
	Allocs float64
	// Refused operations.
	Refused int64
	// Ops is how many operations were run.
	Ops int64
}

// Work runs n operations for processor p, and returns how many were refused.
type Work func(p int, n int64) (refused int64)

// Run runs about n operations on procs processors, which share them evenly.
func Run(procs int, n int64, work Work) Round {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	return run(procs, n, work)
}

// RunAlongside runs n operations on one goroutine, beside what goes on in the
// background, for which there is another processor.
func RunAlongside(n int64, work Work) Round {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	return run(1, n, work)
}

func run(procs int, n int64, work Work) Round {
	runtime.GC()
	each := max(n/int64(procs), 1)
	refused := make([]int64, procs*8) // a cache line apart
	var before, after runtime.MemStats
	start := make(chan struct{})
	var ready, done sync.WaitGroup
	for p := range procs {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			refused[p*8] = work(p, each)
		})
	}
	ready.Wait()
	runtime.ReadMemStats(&before)
	cpu, wall := CPU(), time.Now()
	close(start)
	done.Wait()
	took, used := time.Since(wall), CPU()-cpu
	runtime.ReadMemStats(&after)

	r := Round{Ops: each * int64(procs)}
	ops := float64(r.Ops)
	r.CPU, r.Wall = float64(used)/ops, float64(took)/ops
	r.Allocs = float64(after.Mallocs-before.Mallocs) / ops
	for p := range procs {
		r.Refused += refused[p*8]
	}
	return r
}

// CPU returns the processor time that this process has used.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		// It fails only on arguments that are wrong.
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
