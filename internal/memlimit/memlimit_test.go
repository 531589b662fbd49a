package memlimit

import (
	"io/fs"
	"math"
	"testing"
)

func TestLeastThatHolds(t *testing.T) {
	const mib = 1 << 20
	machine := "MemTotal:       8192 kB\nMemFree: 1 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		soft  int64
		want  int64
	}{
		{"nothing is known", nil, math.MaxInt64, 1 << 30},
		{"machine", map[string]string{"/proc/meminfo": machine}, math.MaxInt64, 8 * mib},
		{"GOMEMLIMIT", map[string]string{"/proc/meminfo": machine}, 3 * mib, 3 * mib},
		{"version 2 at the root", map[string]string{"/proc/meminfo": machine, "/sys/fs/cgroup/memory.max": "4194304\n"}, math.MaxInt64, 4 * mib},
		{"version 2 without a limit", map[string]string{"/proc/meminfo": machine, "/sys/fs/cgroup/memory.max": "max\n"}, math.MaxInt64, 8 * mib},
		{"version 2, a group above", map[string]string{"/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "2097152\n"}, math.MaxInt64, 2 * mib},
		{"version 1", map[string]string{"/proc/self/cgroup": "4:cpu:/x\n7:memory:/y\n",
			"/sys/fs/cgroup/memory/y/memory.limit_in_bytes": "1048576\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n"}, math.MaxInt64, mib},
	} {
		read := func(name string) ([]byte, error) {
			text, ok := c.files[name]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		}
		if got := least(read, c.soft); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
