package main

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"

	group "github.com/KimMachineGun/automemlimit/memlimit"
)

// The limit that the user sets holds, else nine tenths of what the control group allows;
// the log says which bytes, and what is wrong.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	grouped, logged := int64(math.MaxInt64), ""
	if n, err := group.FromCgroup(); err == nil {
		grouped, logged = int64(float64(n)*0.9), "memory limit"
	}
	const user = 300 << 20
	for _, name := range []string{"GOMEMLIMIT", "AUTOMEMLIMIT"} {
		t.Setenv(name, "") // restored at the end
		os.Unsetenv(name)
	}
	for _, c := range []struct {
		name, variable, value string
		want                  int64
		log                   string
	}{
		{"the user's", "GOMEMLIMIT", "300MiB", user, "msg=\"memory limit\" bytes=314572800"},
		{"the group's", "", "", grouped, logged},
		{"off", "AUTOMEMLIMIT", "off", user, "bytes=314572800"},
		{"wrong", "AUTOMEMLIMIT", "much", user, "level=WARN msg=\"memory limit of the control group unknown; set GOMEMLIMIT\" err=\"cannot parse AUTOMEMLIMIT: much\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			debug.SetMemoryLimit(user) // as the runtime does with GOMEMLIMIT
			var log bytes.Buffer
			limitMemory(slog.New(slog.NewTextHandler(&log, nil)))
			if got := debug.SetMemoryLimit(-1); got != c.want || !strings.Contains(log.String(), c.log) || c.log == "" && log.Len() > 0 {
				t.Errorf("a limit of %d, want %d; logged %q", got, c.want, log.String())
			}
		})
	}
}

// A small heap is left to grow by more than itself, unless GOGC is set.
func TestHeapGrows(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	quiet := slog.New(slog.DiscardHandler)
	ballast := limitMemory(quiet)
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	goal, live := s[0].Value.Uint64(), s[1].Value.Uint64()
	if len(ballast) < 16<<20 || goal < live+uint64(len(ballast)) {
		t.Errorf("ballast of %d bytes, %d alive, collected at %d", len(ballast), live, goal)
	}
	runtime.KeepAlive(ballast)
	t.Setenv("GOGC", "100")
	if b := limitMemory(quiet); b != nil {
		t.Errorf("GOGC is set, and there are %d bytes", len(b))
	}
}
