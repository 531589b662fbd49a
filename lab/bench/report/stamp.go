package report

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Stamp says where, when and how figures were taken, in one line of Markdown.
// machineMemory is in bytes, 0 if not known; command is how to repeat them.
func Stamp(now time.Time, machineMemory int64, command string) string {
	machine := processor()
	if machineMemory > 0 {
		machine += fmt.Sprintf(", %d GiB", (machineMemory+1<<29)>>30)
	}
	return fmt.Sprintf("*%s, %s/%s, %s, %s. Repeat with `%s`.*",
		machine, runtime.GOOS, runtime.GOARCH, runtime.Version(), now.UTC().Format("2 January 2006"), command)
}

// processor returns the processors of this machine, such as "2 x AMD EPYC".
func processor() string {
	name := "processors"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := bytes.Cut(text, []byte("model name")); ok {
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			name = strings.TrimSpace(strings.TrimLeft(string(line), " \t:"))
		}
	}
	return fmt.Sprintf("%d × %s", runtime.NumCPU(), name)
}
