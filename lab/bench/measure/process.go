package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of processor time in /proc, which Linux keeps at 10 ms for
// programs whatever its own clock is.
const tick = 10 * time.Millisecond

// ProcessCPU returns the processor time that a process of this machine has
// used, to 10 ms. It needs the /proc of Linux.
func ProcessCPU(pid int) (time.Duration, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("processor time of a process: %w", err)
	}
	// The second field is the program's name in parentheses, which may hold
	// anything; utime and stime are the fields 14 and 15, proc_pid_stat(5).
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s has %d fields after the name, want 13 at least", file, len(fields))
	}
	var sum time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
