package deploytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/testing/otlptest"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// liveRules has something for every line of the dashboard: refusals, shadows,
// delays, soft limits, and an overshoot that is promised.
const liveRules = `
domain: api
descriptors:
  - {key: refused, limit: 2/second, consistency: local}
  - {key: shadow, limit: 2/second, mode: shadow, consistency: local}
  - {key: soft, limit: {limit: 2/second, mode: soft, exceed: 1000%}, consistency: local}
  - {key: delayed, limit: {limit: 5/second, burst: 100}, algorithm: leaky_queue, consistency: local}
  - {key: eventual, limit: 100000/hour, consistency: {mode: eventual, max_overshoot: 10%}}
`

var liveKeys = []string{"refused", "shadow", "soft", "delayed", "eventual"}

// node is a running weir serve.
type node struct {
	*servertest.Process
	http, admin, grpc string
}

// serve starts the command and waits until it listens.
func serve(t *testing.T, command string, args ...string) node {
	t.Helper()
	p := servertest.Start(t, servertest.Invoke(command, append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc", "127.0.0.1:0"}, args...)...))
	n := node{Process: p}
	address := func(what string) string {
		if m := regexp.MustCompile(what + ` +\w+://(127\.0\.0\.1:\d+)`).FindStringSubmatch(p.Output()); m != nil {
			return m[1]
		}
		return ""
	}
	servertest.Await(t, "weir to listen", func() bool {
		n.http, n.admin, n.grpc = address("API"), address("admin"), address("gRPC")
		return n.http != "" && n.admin != "" && n.grpc != ""
	})
	return n
}

// traffic asks a node until ctx ends.
func (n node) traffic(ctx context.Context, t *testing.T, client *http.Client) {
	conn, err := grpc.NewClient(n.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	limits := weirpb.NewLimitServiceClient(conn)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, key := range liveKeys {
			body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":"v%d"}]}]}`, key, i%2)
			// A node that is being ended does not answer; what is missing then is
			// found where the answers are looked for.
			if res, err := client.Post("http://"+n.http+"/v1/check", "application/json", strings.NewReader(body)); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
		_, _ = limits.Check(ctx, &weirpb.CheckRequest{Domain: "api", Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "refused", Value: "g"}}}}})
	}
}

// prometheus is a running Prometheus.
type prometheus struct {
	url    string
	client *http.Client
}

// startPrometheus scrapes nodes every second, by the scrape configuration and the
// rules of deploy/prometheus.
func startPrometheus(t *testing.T, client *http.Client, nodes ...node) prometheus {
	t.Helper()
	binary, dir := servertest.Binary(t, "prometheus"), t.TempDir()
	var targets []string
	for _, n := range nodes {
		targets = append(targets, fmt.Sprintf("%q", n.admin))
	}
	conf := read(t, prometheusFolder+"/prometheus.yaml")
	for was, is := range map[string]string{
		`["127.0.0.1:6070"]`: "[" + strings.Join(targets, ", ") + "]", "scrape_interval: 15s": "scrape_interval: 1s", "evaluation_interval: 15s": "evaluation_interval: 1s",
	} {
		if !strings.Contains(conf, was) {
			t.Fatalf("prometheus.yaml has no %s", was)
		}
		conf = strings.Replace(conf, was, is, 1)
	}
	for name, text := range map[string]string{"prometheus.yaml": conf, "weir.rules.yaml": read(t, prometheusFolder+"/weir.rules.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
	servertest.Start(t, exec.Command(binary, "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr))
	p := prometheus{"http://" + addr, client}
	servertest.Await(t, "Prometheus", func() bool {
		res, err := client.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return p
}

// get asks the API and reads the data of its answer.
func (p prometheus) get(path string, q url.Values, data any) error {
	res, err := p.client.Get(p.url + path + "?" + q.Encode())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 32<<20)).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// values returns the values of an expression now.
func (p prometheus) values(expr string) ([]string, error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data)
	var out []string
	for _, r := range data.Result {
		if v, ok := r.Value[1].(string); ok && v != "NaN" {
			out = append(out, v)
		}
	}
	return out, err
}

// filled returns an expression of the dashboard with its variables as in a browser
// that shows the last minute of everything.
func filled(expr string) string {
	return strings.NewReplacer("$job", ".*", "$instance", ".*", "$domain", ".*", "$rule", ".*",
		"$__rate_interval", "15s", "$__range", "1m").Replace(expr)
}

// A real Prometheus that scrapes real nodes, on memory and on Redis in two regions,
// finds data for everything that the dashboard asks, and takes every rule; no alert
// fires for nodes that are well.
func TestPrometheusReadsWeir(t *testing.T) {
	if testing.Short() || os.Getenv("WEIR_REQUIRE_SERVERS") == "" {
		t.Skip("builds the command and starts Prometheus, two Redis servers and two nodes: make lab does")
	}
	servertest.Binary(t, "prometheus") // else there is no need to build
	command, clean, err := servertest.Command()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clean)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rulesFile := file("rules.yaml", liveRules)
	cert, key, _ := servertest.Certificate(t, dir, "localhost")
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	eu, us := servertest.Redis(t), servertest.Redis(t)
	// Patience is for a busy machine: a call that is late would be a degraded decision.
	const patient = "?timeout=10s"
	memory := serve(t, command, "--rules", rulesFile, "--upstream", upstream.URL, "--resp", "127.0.0.1:0",
		"--config", file("weir.yaml", "shed: {in_flight: {limit: 1000}}\notel: {interval: 1s}\n"), "--otel-endpoint", otlptest.New().HTTP(t))
	redis := serve(t, command, "--rules", rulesFile, "--region", "eu",
		"--regions", "eu=redis://"+eu.Addr+patient, "--regions", "us=redis://"+us.Addr+patient,
		"--resp", "127.0.0.1:0", "WEIR_RESP_TLS_CERT="+cert, "WEIR_RESP_TLS_KEY="+key)

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for _, n := range []node{memory, redis} {
		asking.Go(func() { n.traffic(ctx, t, client) })
	}
	p := startPrometheus(t, client, memory, redis)

	for _, q := range queries(t) {
		var last string
		ok := func() bool {
			values, err := p.values(filled(q.expr))
			if err != nil {
				t.Fatalf("%s: %s: %v", q.panel, filled(q.expr), err)
			}
			last = filled(q.expr)
			return len(values) > 0
		}
		if strings.HasPrefix(q.panel, "annotation ") {
			ok() // rules are loaded once: there is nothing to mark
			continue
		}
		servertest.Await(t, q.panel+": "+last, ok)
	}

	// Every metric of an alert is there.
	all, alerts := rules(t)
	for _, r := range all {
		for _, name := range metricNames(r.Expr) {
			servertest.Await(t, r.Alert+": "+name, func() bool {
				values, err := p.values(fmt.Sprintf(`{__name__=~"%s(_bucket)?"}`, name))
				if err != nil {
					t.Fatal(err)
				}
				return len(values) > 0
			})
		}
	}

	// The rules are evaluated without an error, and nothing fires.
	var state struct {
		Groups []struct {
			Rules []struct{ Name, Type, Health, LastError, State string }
		}
	}
	servertest.Await(t, "all rules to be evaluated", func() bool {
		if err := p.get("/api/v1/rules", nil, &state); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, g := range state.Groups {
			for _, r := range g.Rules {
				if r.Health == "err" {
					t.Fatalf("%s: %s", r.Name, r.LastError)
				}
				if r.Health == "ok" {
					n++
				}
			}
		}
		return n == len(all)
	})
	for _, g := range state.Groups {
		for _, r := range g.Rules {
			if r.State == "firing" {
				t.Errorf("%s fires: %s", r.Name, alerts[r.Name].Expr)
			}
		}
	}
	servertest.Await(t, "the recorded rates", func() bool {
		values, err := p.values(`weir:refused:ratio5m > 0`)
		return err == nil && len(values) > 0
	})

	// And one does fire when something is wrong: a node that is gone. Its alert waits
	// for two minutes; that it is pending suffices.
	if err := memory.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "WeirDown to be pending", func() bool {
		values, err := p.values(`ALERTS{alertname="WeirDown", alertstate="pending"}`)
		return err == nil && len(values) == 1
	})
}
