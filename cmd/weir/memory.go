package main

import (
	"errors"
	"log/slog"
	"math"
	"os"

	group "github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/weirlimit/weir/internal/memlimit"
)

// mostBallast is by how much more than what is alive the heap grows between collections.
const mostBallast = 64 << 20

// limitMemory lets the runtime collect before the process has nine tenths of the memory
// of its control group, unless GOMEMLIMIT is set, and logs what holds. The process keeps
// what it returns: the collector begins when the heap has doubled, and would run after
// every two thousand requests of a node with a mebibyte or two. This much more counts as
// alive, and takes no memory, as nothing writes to it. Where GOGC is set there is none.
//
// A percentage cannot say that: large enough for a small heap, it leaves a large one to
// grow to many times its size.
func limitMemory(log *slog.Logger) (ballast []byte) {
	limit, err := group.Set()
	switch {
	case errors.Is(err, group.ErrNoCgroup), errors.Is(err, group.ErrCgroupsNotSupported):
		log.Debug("no control group; no memory limit but GOMEMLIMIT", "err", err)
	case err != nil:
		log.Warn("memory limit of the control group unknown; set GOMEMLIMIT", "err", err)
	case limit != math.MaxInt64:
		log.Info("memory limit", "bytes", limit)
	}
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, min(mostBallast, memlimit.Bytes()/16))
}
