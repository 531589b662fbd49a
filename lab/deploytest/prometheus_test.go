// Package deploytest proves that what deploy/ holds for Prometheus, Grafana and
// Kubernetes fits the service that it is for.
package deploytest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

const (
	prometheusFolder = "../../deploy/prometheus"
	dashboardFile    = "../../deploy/grafana/weir.json"
	runbooks         = "https://github.com/weirlimit/weir/blob/main/docs/how-to/alerts.md#"
)

// ruleFile is deploy/prometheus/weir.rules.yaml.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// rules returns every rule, and the alerts among them by name.
func rules(t testing.TB) (all []rule, alerts map[string]rule) {
	t.Helper()
	var f ruleFile
	if err := yaml.Unmarshal([]byte(read(t, prometheusFolder+"/weir.rules.yaml")), &f); err != nil {
		t.Fatal(err)
	}
	alerts = make(map[string]rule)
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			all = append(all, r)
			if r.Alert != "" {
				alerts[r.Alert] = r
			}
		}
	}
	return all, alerts
}

// promtool fails the test with what it says if it does.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(servertest.Binary(t, "promtool"), args...)
	cmd.Dir = prometheusFolder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Prometheus takes the files as they are, and each alert fires when it should and
// not when it should not.
func TestAlertsFire(t *testing.T) {
	promtool(t, "check", "config", "prometheus.yaml")
	promtool(t, "check", "rules", "--lint-fatal", "weir.rules.yaml")
	promtool(t, "test", "rules", "weir.rules.test.yaml")
}

// Each alert is tested for firing and for silence, says how bad it is, and has a
// section in the runbook that it names; and the runbook has none of others.
func TestAlertsAreToldOf(t *testing.T) {
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string           `yaml:"alertname"`
				Expected []map[string]any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, prometheusFolder+"/weir.rules.test.yaml")), &tests); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, c := range tests.Tests {
		for _, a := range c.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
			silent[a.Name] = silent[a.Name] || len(a.Expected) == 0
		}
	}
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (Weir\w+)$`).FindAllStringSubmatch(read(t, "../../docs/how-to/alerts.md"), -1) {
		headings[m[1]] = true
	}
	_, alerts := rules(t)
	if len(alerts) < 20 {
		t.Fatalf("%d alerts were read", len(alerts))
	}
	for name, a := range alerts {
		if !fires[name] || !silent[name] {
			t.Errorf("%s: tested for firing %t, for silence %t", name, fires[name], silent[name])
		}
		if !headings[name] {
			t.Errorf("%s: no section in docs/how-to/alerts.md", name)
		}
		if want := runbooks + strings.ToLower(name); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook %q, want %q", name, a.Annotations["runbook_url"], want)
		}
		if s := a.Labels["severity"]; s != "warning" && s != "critical" || a.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", name, s, a.Annotations["summary"])
		}
		delete(headings, name)
	}
	for name := range headings {
		t.Errorf("docs/how-to/alerts.md tells of the alert %s, which is none", name)
	}
}

// metricNames returns the metrics that a PromQL expression names, without the
// suffixes of histograms.
func metricNames(expr string) []string {
	var out []string
	for _, name := range regexp.MustCompile(`\b(?:weir|go|process)_\w+`).FindAllString(expr, -1) {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		out = append(out, name)
	}
	return out
}

// Every metric that an alert or the dashboard goes by is documented, and with it
// every label. Those of the Go runtime are looked for in a running node.
func TestMetricsExist(t *testing.T) {
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(weir_\\w+)` \\| \\w+ \\| ([^|]*) \\|").FindAllStringSubmatch(read(t, "../../docs/reference/generated/metrics.md"), -1) {
		documented[m[1]] = m[2]
	}
	selector := regexp.MustCompile(`\b(weir_\w+)\{([^}]*)\}`)
	label := regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	seen := 0
	look := func(where, expr string) {
		for _, name := range metricNames(expr) {
			if _, ok := documented[name]; strings.HasPrefix(name, "weir_") && !ok {
				t.Errorf("%s: %s is not in docs/reference/generated/metrics.md: %s", where, name, expr)
			}
			seen++
		}
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			labels := documented[metricNames(m[1])[0]] + "`job``instance``le`"
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if !strings.Contains(labels, "`"+l[1]+"`") {
					t.Errorf("%s: %s has no label %s: %s", where, m[1], l[1], expr)
				}
			}
		}
	}
	all, _ := rules(t)
	for _, r := range all {
		look(r.Record+r.Alert, r.Expr)
	}
	for _, q := range queries(t) {
		look(q.panel, q.expr)
	}
	if len(documented) < 50 || seen < 100 {
		t.Fatalf("%d metrics are documented, %d were looked for", len(documented), seen)
	}
}
