package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/weirlimit/weir/internal/memlimit"
)

// The heap is left to grow between collections by a part of the memory that the
// process may use, within bounds.
const (
	growthPart              = 64
	leastGrowth, mostGrowth = 64 << 20, 512 << 20
)

// KeepHeap lets the garbage collector rest until the heap has grown by a 64th of the
// memory that the process may use, at least 64 MiB and at most 512, as long as less
// than that is alive. A node with few keys keeps a mebibyte or two, and would collect
// after every few hundred requests; one with many is collected when its heap has
// doubled, as ever. It is for the process as a whole, and does nothing where GOGC is
// set in the environment. GOMEMLIMIT holds all the same.
func KeepHeap() {
	if os.Getenv("GOGC") == "" {
		k := keeper{growth: heapGrowth(memlimit.Bytes())}
		k.follow(0)
	}
}

func heapGrowth(memory int64) uint64 {
	return uint64(min(max(memory/growthPart, leastGrowth), mostGrowth))
}

// A keeper sets by how much the heap may grow.
type keeper struct{ growth uint64 }

// follow sets the percentage for what is alive, and again after the next
// collection. last is the one that is set, 0 for the runtime's own.
func (k keeper) follow(last int) {
	if p := k.percent(aliveHeap()); p != last {
		debug.SetGCPercent(p)
		last = p
	}
	// A cleanup runs after the collection that finds its object unused.
	runtime.AddCleanup(new([16]byte), k.follow, last)
}

// percent returns by how much the heap may grow beyond what is alive, in steps that
// differ by an eighth or more: setting it stops the world.
func (k keeper) percent(alive uint64) int {
	// The runtime takes less for as much as this.
	alive = max(alive, 4<<20)
	p := 100
	for alive*uint64(p) < 100*k.growth {
		p += p / 8
	}
	return p
}

// aliveHeap returns what the last collection found in use, in bytes.
func aliveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return mostGrowth
	}
	return s[0].Value.Uint64()
}
