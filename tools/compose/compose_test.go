package compose

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const token = "sixteen bytes or more"

// files are those of deploy/, with their services: a fleet, and one gateway.
var files = map[string][]string{
	"compose.yaml":       {"analytics", "app", "gateway", "grafana", "node-1", "node-2", "postgres", "prometheus", "rabbitmq", "redis"},
	"compose.small.yaml": {"app", "weir"},
}

// load reads a file as Compose does: schema, variables, and what services name.
func load(t *testing.T, file string, env ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../deploy/" + file}, cli.WithEnv(env), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

func mustLoad(t *testing.T, file string) *types.Project {
	t.Helper()
	p, err := load(t, file, "WEIR_ADMIN_TOKEN="+token)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// isWeir is true for a service that runs Weir.
func isWeir(s types.ServiceConfig) bool { return s.Build != nil }

// Compose takes each file, and asks for the token that it needs.
func TestComposeTakesTheFiles(t *testing.T) {
	for file, want := range files {
		if got := mustLoad(t, file).ServiceNames(); !slices.Equal(got, want) {
			t.Errorf("%s: services %v, want %v", file, got, want)
		}
		if _, err := load(t, file); err == nil || !strings.Contains(err.Error(), "WEIR_ADMIN_TOKEN") {
			t.Errorf("%s without a token: %v, want an error that names WEIR_ADMIN_TOKEN", file, err)
		}
	}
}

// What is published is of loopback alone, what is mounted is there, and an image is of
// one version, which for Weir is that of the chart.
func TestServicesAreBounded(t *testing.T) {
	chart, err := os.ReadFile("../../deploy/helm/weir/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^appVersion: "(.+)"$`).FindStringSubmatch(string(chart))[1]
	for file := range files {
		for name, s := range mustLoad(t, file).Services {
			for _, port := range s.Ports {
				if port.HostIP != "127.0.0.1" {
					t.Errorf("%s: the port %s is published on %q, want loopback", name, port.Published, port.HostIP)
				}
			}
			for _, v := range s.Volumes {
				if v.Type != types.VolumeTypeBind {
					continue
				}
				if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
					t.Errorf("%s: the mount of %s, read only %v: %v", name, v.Source, v.ReadOnly, err)
				}
			}
			if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" || isWeir(s) && tag != version {
				t.Errorf("%s: the image %s is not of a version, or not of %s", name, s.Image, version)
			}
			// Compose writes configs and secrets into a container, which it cannot where that is read only.
			if isWeir(s) && (!s.ReadOnly || len(s.Configs)+len(s.Secrets) > 0) {
				t.Errorf("%s: read only %v, with %d configs and %d secrets: want true and none", name, s.ReadOnly, len(s.Configs), len(s.Secrets))
			}
		}
	}
}

// host finds the host of a URL, or of a target of Prometheus.
var host = regexp.MustCompile(`(?:://(?:\w+:\w+@)?|")([a-z][a-z0-9-]*)(?::(\d+))?`)

// Whoever is named by another service is a service.
func TestHostsAreServices(t *testing.T) {
	for file, least := range map[string]int{"compose.yaml": 14, "compose.small.yaml": 1} {
		p := mustLoad(t, file)
		named := 0
		check := func(where, text string) {
			for _, m := range host.FindAllStringSubmatch(text, -1) {
				if m[2] == "" && !strings.HasPrefix(m[0], "://") {
					continue
				}
				named++
				if _, ok := p.Services[m[1]]; !ok {
					t.Errorf("%s: %s: %s is not a service", file, where, m[1])
				}
			}
		}
		for name, s := range p.Services {
			check(name, strings.Join(append(environment(s), s.Command...), "\n"))
		}
		for name, c := range p.Configs {
			check(name, c.Content)
		}
		if named < least {
			t.Errorf("%s: only %d hosts were found: does the pattern still fit?", file, named)
		}
	}
}

func environment(s types.ServiceConfig) []string {
	var out []string
	for key, value := range s.Environment {
		if value != nil {
			out = append(out, key+"="+*value)
		}
	}
	return out
}

// Each service that runs Weir has a command that it takes: its configuration is printed
// with the ports that are published, and it starts on its rules, with servers that are
// not there. An operator is answered with the token, and nobody without.
func TestWeirTakesItsCommands(t *testing.T) {
	weir := filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", weir, "./cmd/weir")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	rules, err := filepath.Abs("../../deploy/compose/rules")
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/etc/weir/rules", rules)
	away := strings.NewReplacer("WEIR_ADMIN=:6070", "WEIR_ADMIN=127.0.0.1:0", "--listen=:6071", "--listen=127.0.0.1:0",
		"redis:6379", "127.0.0.1:1", "rabbitmq:5672", "127.0.0.1:1", "postgres:5432", "127.0.0.1:1", "app:80", "127.0.0.1:1")
	replace := func(r *strings.Replacer, list []string) []string {
		out := slices.Clone(list)
		for i := range out {
			out[i] = r.Replace(out[i])
		}
		return out
	}
	for file := range files {
		for name, s := range mustLoad(t, file).Services {
			if !isWeir(s) {
				continue
			}
			t.Run(file+"/"+name, func(t *testing.T) {
				t.Parallel()
				env := replace(here, environment(s))
				if s.Command[0] == "serve" {
					cmd := exec.Command(weir, append(slices.Clone(s.Command), "--print-config")...)
					cmd.Env = env
					out, err := cmd.Output()
					if err != nil || !strings.Contains(string(out), "http:\n  listen: :8080\n") || !strings.Contains(string(out), "admin:\n  listen: :6070\n") {
						t.Errorf("weir %v --print-config: %v\n%s", s.Command, err, out)
					}
				}
				env = append(replace(away, env), "WEIR_STORE_START=serve", "WEIR_HTTP=127.0.0.1:0", "WEIR_GRPC=127.0.0.1:0")
				start(t, weir, replace(away, s.Command), env)
			})
		}
	}
}

// start runs weir until it prints the address of its reports or of its admin port, and
// asks there for the page of operators.
func start(t *testing.T, weir string, args, env []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, weir, args...)
	cmd.Env = env
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed, isUp := "", false
	for lines := bufio.NewScanner(out); !isUp && lines.Scan(); {
		printed += lines.Text() + "\n"
		if m := regexp.MustCompile(`^(admin|analytics) +(http://127\.0\.0\.1:\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			isUp = true
			for given, want := range map[string]int{token: http.StatusOK, "": http.StatusUnauthorized} {
				if status, err := get(ctx, m[2]+"/metrics", given); status != want {
					t.Errorf("weir %s: operators with the token %q: %d %v, want %d", strings.Join(args, " "), given, status, err, want)
				}
			}
		}
	}
	cancel() // kills it
	err = cmd.Wait()
	if !isUp {
		t.Errorf("weir %s: %v\n%s%s", strings.Join(args, " "), err, printed, log.String())
	}
	if strings.Contains(log.String(), "variables without effect") {
		t.Errorf("weir %s has variables without effect:\n%s", strings.Join(args, " "), log.String())
	}
}

// get returns the status of a page of operators.
func get(ctx context.Context, url, token string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// Prometheus takes its configuration, and asks each service that runs Weir on the port of
// its metrics.
func TestPrometheusTakesItsConfiguration(t *testing.T) {
	p := mustLoad(t, "compose.yaml")
	content := p.Configs["prometheus"].Content
	for name, s := range p.Services {
		port := map[string]string{"serve": "6070", "analytics": "6071"}
		if isWeir(s) && !strings.Contains(content, fmt.Sprintf("%q", name+":"+port[s.Command[0]])) {
			t.Errorf("Prometheus does not scrape %s:\n%s", name, content)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_SERVERS") != "" {
			t.Fatal("promtool is not installed: scripts/servers.sh promtool:prometheus")
		}
		t.Skip("promtool is not installed: scripts/servers.sh promtool:prometheus")
	}
	rules, err := os.ReadFile("../../deploy/prometheus/weir.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	content = strings.ReplaceAll(content, "/run/secrets/weir-token", dir+"/token")
	for name, text := range map[string]string{"prometheus.yml": content, "weir.rules.yaml": string(rules), "token": token} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(promtool, "check", "config", dir+"/prometheus.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// Grafana has the dashboard where its provider looks for it, and the data of Prometheus.
func TestGrafanaHasTheDashboard(t *testing.T) {
	p := mustLoad(t, "compose.yaml")
	g := p.Services["grafana"]
	folder := ""
	for _, v := range g.Volumes {
		if _, err := os.Stat(filepath.Join(v.Source, "weir.json")); err == nil {
			folder = v.Target
		}
	}
	home := g.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if folder == "" || home == nil || *home != folder+"/weir.json" || !strings.Contains(p.Configs["grafana-dashboards"].Content, "path: "+folder+"}") {
		t.Errorf("the dashboard is mounted in %q; the home dashboard is %v", folder, home)
	}
	for _, c := range g.Configs {
		if !strings.HasPrefix(c.Target, "/etc/grafana/provisioning/") {
			t.Errorf("%s is written to %s, where Grafana does not look", c.Source, c.Target)
		}
	}
}
