package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
)

// A cost that a rule fixes and that never passes where regions count together is an
// error when the rules load.
func TestCostsAcrossRegionsAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	f := func(cost, want string) {
		t.Helper()
		text := "domain: d\ndescriptors:\n  - key: user\n    limit: 1000/hour\n    algorithm: fixed_window\n    consistency: {mode: eventual, max_overshoot: 50}\n    cost: " + cost + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// The store of the node's own region is named in either way.
		for _, conf := range []*config.Config{
			{Region: "a", Store: config.DefaultStore, Regions: []string{"a=redis://a", "b=redis://b", "c=redis://c"}},
			{Region: "a", Store: "redis://a", Regions: []string{"b=redis://b", "c=redis://c"}},
		} {
			conf.Rules, conf.API.Domain = file, "api"
			_, err := openRules(conf, nil, &openedStore{}, nil, slog.New(slog.DiscardHandler))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("cost %s, %q: %v, want %q", cost, conf.Regions, err, want)
			}
		}
	}
	f("25", "")
	f("26", "a cost of 26 never passes in 3 regions: each admits at most 25 units before the others know of it: raise max_overshoot to 52")
	f("501", "lower the cost, or use consistency: local")
}
