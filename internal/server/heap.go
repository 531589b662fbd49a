package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/weirlimit/weir/internal/memlimit"
)

const (
	// leastGrowth is by how much the heap is left to grow between collections.
	leastGrowth = 64 << 20
	// A heap of pointers, such as leases, takes long to mark, and is left to grow by
	// growthFactor times what is alive: up to a part of the memory that the process
	// may use, and mostGrowth.
	growthFactor, growthPart, mostGrowth = 4, 64, 512 << 20
)

// KeepHeap lets the garbage collector rest until the heap has grown by 64 MiB, or by
// four times what is alive up to a 64th of the memory that the process may use, which
// is 512 MiB at most. A node with few keys keeps a mebibyte or two, and would collect
// after every few hundred requests; one with more alive than all that is collected
// when its heap has doubled, as ever. It is for the process as a whole, and does
// nothing where GOGC is set in the environment. GOMEMLIMIT holds all the same.
func KeepHeap() {
	if os.Getenv("GOGC") == "" {
		newKeeper(memlimit.Bytes()).follow(0)
	}
}

// A keeper sets by how much the heap may grow.
type keeper struct {
	// most is what growthFactor times what is alive is bounded by.
	most uint64
}

func newKeeper(memory int64) keeper {
	return keeper{most: uint64(min(memory/growthPart, mostGrowth))}
}

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
	growth := max(leastGrowth, min(growthFactor*alive, k.most))
	for alive*uint64(p) < 100*growth {
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
