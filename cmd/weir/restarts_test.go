package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Each exception by which a changed limit counts from zero is told at the reload, on each kind
// of store, and nothing else is.
func TestReloadTellsOfEachException(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Redis(t).Addr + "?timeout=5s"
	cached, _ := servertest.Memcached(t, "")
	type change struct{ to, why string } // why is empty where what was spent stays spent
	rated, local := "limit: 100/minute", "limit: 100/minute, consistency: local"
	atOnce := "limit: 10, algorithm: concurrency, ttl: 30s"
	anywhere := []change{
		{"limit: 10/hour, algorithm: token_bucket, burst: 7", ""},
		{atOnce, "each algorithm counts for itself"},
		{rated, "each algorithm counts for itself"},
		{"limit: 100/minute, algorithm: sliding_log", "each algorithm counts for itself"},
		{"limit: 100/minute, algorithm: sliding_log, max_log: 5000", "different forms"},
		{"limit: 90/minute, algorithm: sliding_log, max_log: 5000, on_change: reset", "on_change: keep"},
		{"limit: 100/minute, algorithm: fixed_window", "each algorithm counts for itself"},
		{"limits: [100/minute, 500/hour], algorithm: fixed_window", "under another name"},
		{"limits: [100/minute, 500/day], algorithm: fixed_window", `keeps what was spent`},
	}
	sketch := func(width string) string {
		return "limit: 100/minute, algorithm: approximate, sketch: {width: " + width + ", depth: 4, bloom_bits: 16384, bloom_hashes: 3}"
	}
	for _, c := range []struct {
		store   string
		from    string
		changes []change
	}{
		{"memory:", rated, slices.Concat(anywhere, []change{{sketch("4096"), "counts for itself"}, {sketch("8192"), "a sketch is of one period and size"}})},
		{url, rated, slices.Concat(anywhere, []change{{local, "the shared store count apart"}, {rated, "the shared store count apart"}})},
		{"memcached://" + cached, "limit: 100/minute, algorithm: fixed_window", []change{
			{"limit: 90/minute, algorithm: fixed_window", ""},
			{"limit: 90/hour, algorithm: fixed_window", "known by the end of its window"},
		}},
	} {
		file := filepath.Join(t.TempDir(), "rules.yaml")
		write := func(limit string) {
			t.Helper()
			if err := os.WriteFile(file+".new", []byte("domain: api\ndescriptors: [{key: client_id, "+limit+"}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(file+".new", file); err != nil {
				t.Fatal(err)
			}
		}
		write(c.from)
		n, want := serve(t, "--rules", file, "--store", c.store), 0
		for i, change := range c.changes {
			write(change.to)
			servertest.Await(t, "the new file to be used", func() bool { return n.rules(t).Generation == uint64(i+2) })
			if change.why == "" {
				continue
			}
			want++
			lines := func() []string { return strings.Split(n.Output(), `"limits count from zero`)[1:] }
			servertest.Await(t, "a warning that "+change.to+" counts from zero", func() bool { return len(lines()) >= want })
			if line, _, _ := strings.Cut(lines()[want-1], "\n"); len(lines()) > want || !strings.Contains(line, change.why) {
				t.Errorf("%s, %s: %d warnings, want %d: %s", c.store, change.to, len(lines()), want, line)
			}
		}
	}
}
