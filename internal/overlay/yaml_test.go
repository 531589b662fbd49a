package overlay_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/rules"
)

// The line that a rules file would need for an entry does there what the entry
// does.
func TestYAMLIsReadByRules(t *testing.T) {
	const odd = "we: {\"ird\"} # <é>\u2028\uffff\ufeff"
	entry := func(e overlay.Entry) overlay.Entry {
		e.Entries, e.Limit = []weir.Entry{{Key: "client_id", Value: odd}}, "a \"name\": #1"
		return e
	}
	for _, e := range []overlay.Entry{
		{Kind: overlay.Ban},
		{Kind: overlay.Override, Algorithm: "token_bucket", Count: 5000, Period: time.Minute.Microseconds(), Burst: 6000},
		{Kind: overlay.Override, Algorithm: "fixed_window", Count: 7, Period: (90 * time.Second).Microseconds()},
		{Kind: overlay.Override, Algorithm: "sliding_window", Count: 1 << 53, Period: 1_500},
		{Kind: overlay.Override, Algorithm: "sliding_log", Count: 9, Period: (30 * 24 * time.Hour).Microseconds()},
		{Kind: overlay.Override, Algorithm: "concurrency", Count: 3, Period: (45 * time.Second).Microseconds()},
	} {
		e = entry(e)
		file := filepath.Join(t.TempDir(), "rules.yaml")
		text := "domain: api\ndescriptors:\n  - key: client_id\n    limit: 1/hour\n    " + e.YAML() + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := rules.Load([]string{file}, rules.Options{})
		if err != nil {
			t.Errorf("%s: %v", e.YAML(), err)
			continue
		}
		ops := set.Match(nil, &weir.Request{Domain: "api", Lease: "x", Descriptors: []weir.Descriptor{{Entries: e.Entries}}})
		if len(ops) != 1 {
			t.Errorf("%s: %d ops", e.YAML(), len(ops))
			continue
		}
		l := ops[0].Limit
		switch {
		case e.Kind == overlay.Ban:
			if ops[0].Role != weir.Deny {
				t.Errorf("%s does not refuse", e.YAML())
			}
		case l.Name != e.Limit || l.Count != e.Count || l.Period.Microseconds() != e.Period || l.Algorithm.Name() != e.Algorithm || e.Burst > 0 && l.Burst != e.Burst:
			t.Errorf("%s: got %s, %d per %s, burst %d, %s", e.YAML(), l.Name, l.Count, l.Period, l.Burst, l.Algorithm.Name())
		}
	}
}
