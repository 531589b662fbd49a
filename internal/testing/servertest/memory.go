package servertest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Memory returns the resident memory of a process in bytes: what it is, and the most
// that it was. It skips the test on a system without /proc, which alone tells the
// second: all but Linux.
func Memory(t testing.TB, pid int) (now, most int64) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, none := os.Stat("/proc/self/status"); os.IsNotExist(none) {
		t.Skip("memory is read from /proc, which only Linux has")
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "VmRSS:" && f[0] != "VmHWM:" {
			continue
		}
		kib, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if f[0] == "VmRSS:" {
			now = kib << 10
		} else {
			most = kib << 10
		}
	}
	if now == 0 || most == 0 {
		t.Fatalf("no memory in %s", data)
	}
	return now, most
}
