// Package memlimit finds out how much memory the process may use.
package memlimit

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Bytes returns the memory that this process may use: the least of the limits of its
// control groups, of GOMEMLIMIT, and of the memory of the machine. Where nothing is
// known, it is 1 GiB.
func Bytes() int64 { return least(os.ReadFile, debug.SetMemoryLimit(-1)) }

// least is Bytes under a soft limit of the Go runtime; math.MaxInt64 is none.
func least(read func(string) ([]byte, error), soft int64) int64 {
	bytes := soft
	for _, limit := range append(groupLimits(read), machineMemory(read)) {
		if limit > 0 {
			bytes = min(bytes, limit)
		}
	}
	if bytes == math.MaxInt64 {
		return 1 << 30
	}
	return bytes
}

// groupLimits returns the memory limits of the control groups, versions 1 and 2,
// that this process and their ancestors are in.
func groupLimits(read func(string) ([]byte, error)) []int64 {
	groups := []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
	// A line is hierarchy:controllers:path; version 2 has no controllers.
	own, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		switch {
		case parts[1] == "memory":
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case parts[1] != "":
			continue
		}
		for dir := path.Clean("/" + parts[2]); dir != "/"; dir = path.Dir(dir) {
			groups = append(groups, root+dir+"/"+file)
		}
	}
	var limits []int64
	for _, name := range groups {
		// A file that is not there limits nothing; neither does "max".
		text, err := read(name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			limits = append(limits, n)
		}
	}
	return limits
}

// machineMemory returns the memory of the machine, zero if it is not known.
func machineMemory(read func(string) ([]byte, error)) int64 {
	text, err := read("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
