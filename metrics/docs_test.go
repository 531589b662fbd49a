package metrics_test

import (
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/queue/rabbitmq"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/params"
)

//go:generate go test . -run ^TestDocs$ -update

// loaded is any time.
var loaded = time.Unix(1, 0)

var update = flag.Bool("update", false, "rewrite docs/reference/generated/metrics.md")

const docsHead = `# Metrics

` + "`/metrics`" + ` on the admin address, in the Prometheus and OpenMetrics text formats,
beside those of the Go runtime (` + "`go_*`" + `) and of the process (` + "`process_*`" + `).

Label values come from the rules and the configuration, never from clients: the
number of series does not grow with traffic. Limits beyond 10,000 are
summed under the rule ` + "`(other)`" + `. ` + "`decision`" + ` is one of %s; a decision has one of the first six; the last two are counted in addition.

OpenTelemetry exports have the same metrics under the same names: [telemetry](../telemetry.md).
The [alerts](../../how-to/alerts.md) and the [dashboard](../../../deploy/grafana/) use them.
A node has ` + "`weir_analytics_*`" + ` if it runs [analytics](../analytics.md); of this table ` + "`weir analytics`" + ` has only these.
` + "`weir ratelimit`" + ` has [other statistics](../../how-to/envoy-ratelimit.md#statistics).

| metric | type | labels | meaning |
|---|---|---|---|
`

// docs/reference/generated/metrics.md is what a scrape says:
//
//	go test ./metrics -run TestDocs -update
func TestDocs(t *testing.T) {
	l := weir.PerMinute(10, algorithm.Approximate)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	eventual := weir.PerMinute(10, algorithm.FixedWindow)
	eventual.Consistency.Mode = params.ConsistencyEventual
	if err := eventual.Compile(); err != nil {
		t.Fatal(err)
	}
	m := metrics.New(metrics.Options{
		Limits: func() []limits.Ref { return []limits.Ref{{Limit: l}, {Limit: eventual}} },
		Sketch: func(*weir.Limit) (sketch.Stats, bool) { return sketch.Stats{}, true },
		Store:  func() metrics.Store { return metrics.Store{} },
		Shared: func() metrics.Shared { return metrics.Shared{Regions: []metrics.Region{{Name: "eu"}}} },
		Calls:  metrics.NewCalls(),
		Redis:  func() metrics.Redis { return metrics.Redis{} },
		Overlay: func() metrics.Overlay {
			return metrics.Overlay{Modes: []metrics.Mode{{Until: loaded}}}
		},
		Unasked: func() int { return 0 },
		Guesses: func() uint64 { return 0 }, RefusedBodies: func() uint64 { return 0 },
		Identity: func() metrics.Identity {
			return metrics.Identity{Failures: []metrics.IdentityFailure{{}}, Untrusted: []metrics.UntrustedField{{}}}
		},
		Unmatched: func() []metrics.Unmatched { return []metrics.Unmatched{{}} },
		Reloads:   func() metrics.Reloads { return metrics.Reloads{Last: loaded} },
		Shed: func() metrics.Shed {
			return metrics.Shed{Limiters: []metrics.Limiter{{}}, Thresholds: []metrics.Threshold{{}}}
		},
		RESP:      func() metrics.RESP { return metrics.RESP{} },
		Telemetry: func() metrics.Telemetry { return metrics.Telemetry{} },
		Certificates: func() []metrics.Certificate {
			return []metrics.Certificate{{File: "a", Expires: loaded}}
		},
		Events:      func() metrics.Events { return metrics.Events{} },
		Connections: func() []metrics.Connections { return []metrics.Connections{{}} },
	})
	m.Instrument("gateway", http.NotFoundHandler())
	m.RESPBatch()
	m.GRPC()("/package.Service/Method", "OK", 0)
	db, err := sqlite.Open(t.Context(), sqlite.Memory)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	service, err := analytics.New(db, analytics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := rabbitmq.Consume("amqp://127.0.0.1:1/weir", nil) // it connects when it is run
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for _, c := range []prometheus.Collector{service.Collector(), analytics.SourceCollector(source)} {
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	text := scrape(t, m)

	var outcomes []string
	for o := weir.Allowed; o < weir.NumOutcomes; o++ {
		outcomes = append(outcomes, "`"+o.String()+"`")
	}
	want := fmt.Sprintf(docsHead, strings.Join(outcomes, ", "))
	head := regexp.MustCompile(`(?m)^# HELP (weir_\w+) (.*)\n# TYPE \w+ (\w+)\n\w+(?:\{(.*)\})? `)
	name := regexp.MustCompile(`(\w+)="`)
	base := regexp.MustCompile(`_(milli|micro|nano|kilo|mega)\w+|_(ms|us|ns|minutes|hours|days)(_|$)`)
	for _, f := range head.FindAllStringSubmatch(text, -1) {
		if unit := base.FindString(f[1]); unit != "" {
			t.Errorf("%s is in %s: base units are seconds and bytes", f[1], unit)
		}
		var labels []string
		for _, n := range name.FindAllStringSubmatch(f[4], -1) {
			if n[1] != "le" {
				labels = append(labels, "`"+n[1]+"`")
			}
		}
		want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", f[1], f[3], strings.Join(labels, ", "), f[2])
	}
	if n := strings.Count(text, "# HELP weir_"); strings.Count(want, "| `weir_") != n {
		t.Errorf("the page has not all %d metrics:\n%s", n, want)
	}
	const path = "../docs/reference/generated/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): go test ./metrics -run TestDocs -update", path, err)
	}
}

// Every metric that other pages name exists.
func TestPagesNameMetrics(t *testing.T) {
	known, err := os.ReadFile("../docs/reference/generated/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	err = filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bweir_[a-z_]*(?:shared_store|redis|overlay|degraded)_[a-z_]+`).FindAllString(string(text), -1) {
			if name = strings.TrimSuffix(name, "_bucket"); !strings.Contains(string(known), "`"+name+"`") {
				t.Errorf("%s names %s, which there is not", page, name)
			}
		}
	}
}
