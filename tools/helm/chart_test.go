package helm

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const (
	chartFolder = "../../deploy/helm/weir"
	// plain is the chart with its own values, for those who have no Helm.
	plain = "../../deploy/kubernetes/weir.yaml"
	// compatible is what stands in the place of envoyproxy/ratelimit.
	compatible = "../../deploy/kubernetes/ratelimit.yaml"
)

var update = flag.Bool("update", false, "write deploy/kubernetes/weir.yaml anew")

func load(t testing.TB) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns the documents that the chart makes of values, by kind.
func render(c *chart.Chart, values string) (map[string]string, error) {
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "weir", Namespace: "limits", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") || strings.TrimSpace(text) == "" {
			continue
		}
		kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(text)
		if kind == nil {
			return nil, fmt.Errorf("%s has no kind:\n%s", name, text)
		}
		out[kind[1]] = strings.TrimSpace(text) + "\n"
	}
	return out, nil
}

func mustRender(t testing.TB, values string) map[string]string {
	t.Helper()
	docs, err := render(load(t), values)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// full asks for everything at once.
const full = `
rules: {}
existingRules: mine
redis: {existingSecret: shop-redis, existingSecretKey: dsn}
upstream: http://shop:3000
trust: [10.0.0.0/8, 192.0.2.1]
trustedProxies: [10.1.0.0/16]
admin: {existingSecret: weir-admin}
otel: {endpoint: "http://collector:4317", protocol: grpc}
extraArgs: [--drain-delay=3s]
extraEnv: [{name: OTEL_SERVICE_NAME, value: shop}]
image: {tag: v9, pullSecrets: [{name: registry}]}
service: {headless: false, annotations: {a: b}}
serviceAccount: {create: false, name: own}
autoscaling: {enabled: true, minReplicas: 4, maxReplicas: 40}
podDisruptionBudget: {maxUnavailable: 25%}
networkPolicy:
  enabled: true
  from: [{podSelector: {matchLabels: {app: envoy}}}]
  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
  egress: [{ports: [{port: 6379}], to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]
serviceMonitor: {enabled: true, labels: {release: prometheus}}
podAnnotations: {x: z}
podLabels: {team: edge}
nodeSelector: {disk: ssd}
tolerations: [{key: edge, operator: Exists}]
affinity: {podAntiAffinity: {}}
`

// strict reads a document as Kubernetes does, and fails at a key that it does not
// know.
func strict[T any](t testing.TB, docs map[string]string, kind string) *T {
	t.Helper()
	into := new(T)
	if docs[kind] == "" {
		t.Fatalf("there is no %s", kind)
	}
	if err := yaml.UnmarshalStrict([]byte(docs[kind]), into); err != nil {
		t.Fatalf("%s: %v\n%s", kind, err, docs[kind])
	}
	return into
}

// Helm finds nothing wrong with the chart.
func TestLint(t *testing.T) {
	for _, values := range []string{"", full} {
		var given map[string]any
		if err := yaml.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.All(chartFolder, given, "limits", true).Messages {
			if !strings.Contains(m.Err.Error(), "icon is recommended") {
				t.Error(m)
			}
		}
	}
}

// Whatever is asked for, Kubernetes knows every key of what comes out.
func TestKubernetesKnowsEveryKey(t *testing.T) {
	docs := mustRender(t, full)
	d := strict[apps.Deployment](t, docs, "Deployment")
	strict[core.Service](t, docs, "Service")
	hpa := strict[autoscaling.HorizontalPodAutoscaler](t, docs, "HorizontalPodAutoscaler")
	pdb := strict[policy.PodDisruptionBudget](t, docs, "PodDisruptionBudget")
	np := strict[networking.NetworkPolicy](t, docs, "NetworkPolicy")
	if docs["ServiceMonitor"] == "" || docs["ConfigMap"] != "" || docs["Secret"] != "" || docs["ServiceAccount"] != "" {
		t.Error("what was not asked for is there, or what was is not")
	}
	if hpa.Spec.ScaleTargetRef.Name != d.Name || *hpa.Spec.MinReplicas != 4 || d.Spec.Replicas != nil {
		t.Errorf("the autoscaler scales %s, and the deployment says %v replicas", hpa.Spec.ScaleTargetRef.Name, d.Spec.Replicas)
	}
	labels := d.Spec.Template.Labels
	for what, want := range map[string]map[string]string{"pdb": pdb.Spec.Selector.MatchLabels, "policy": np.Spec.PodSelector.MatchLabels, "deployment": d.Spec.Selector.MatchLabels} {
		for k, v := range want {
			if labels[k] != v {
				t.Errorf("the selector of the %s does not meet the pods: %s=%s", what, k, v)
			}
		}
	}
	pod := d.Spec.Template.Spec
	args := strings.Join(pod.Containers[0].Args, "\n")
	for _, want := range []string{"--admin=:6070", "--admin-token-file=/run/secrets/weir/token", "--upstream=http://shop:3000", "--trust=10.0.0.0/8,192.0.2.1",
		"--store-nodes=4", "--otel-endpoint=http://collector:4317", "--drain-delay=3s"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in\n%s", want, args)
		}
	}
	if e := pod.Containers[0].Env[1]; e.Name != "WEIR_OTEL_PROTOCOL" || e.Value != "grpc" {
		t.Errorf("%+v", e)
	}
	if e := pod.Containers[0].Env[0]; e.Name != "WEIR_STORE" || e.ValueFrom.SecretKeyRef.Name != "shop-redis" || e.ValueFrom.SecretKeyRef.Key != "dsn" {
		t.Errorf("%+v", e)
	}
	if p := pod.Containers[0].ReadinessProbe.HTTPGet.Port.String(); p != "admin" {
		t.Errorf("behind a gateway the probes are on %s", p)
	}

	docs = mustRender(t, "redis: {url: 'redis://:secret@r:6379'}")
	s := strict[core.Secret](t, docs, "Secret")
	d = strict[apps.Deployment](t, docs, "Deployment")
	if s.StringData["url"] != "redis://:secret@r:6379" || d.Spec.Template.Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef.Name != s.Name {
		t.Errorf("the secret %s holds %v", s.Name, s.StringData)
	}
	if strings.Contains(docs["Deployment"], "secret@") {
		t.Error("the password stands in the deployment")
	}
}

// The values of docs/how-to/kubernetes.md make what the page says.
func TestPageOfKubernetes(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string {
		m := regexp.MustCompile("(?s)`" + regexp.QuoteMeta(name) + "`:\n\n```yaml\n(.*?)```").FindSubmatch(page)
		if m == nil {
			t.Fatalf("the page does not show %s", name)
		}
		return string(m[1])
	}
	rules := file("rules.yaml")
	// --set-file 'rules.rules\.yaml=rules.yaml'
	docs := mustRender(t, file("values.yaml")+"rules:\n  rules.yaml: |\n"+regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimRight(rules, "\n"), "    ")+"\n")
	if m := strict[core.ConfigMap](t, docs, "ConfigMap"); m.Data["rules.yaml"] != rules {
		t.Errorf("the rules are %q", m.Data)
	}
	d := strict[apps.Deployment](t, docs, "Deployment")
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	for what, path := range map[*core.Probe]string{c.StartupProbe: "/healthz/ready", c.ReadinessProbe: "/healthz/ready", c.LivenessProbe: "/healthz/live"} {
		if what.HTTPGet.Path != path {
			t.Errorf("a probe asks %s, the page says %s", what.HTTPGet.Path, path)
		}
	}
	args := strings.Join(c.Args, "\n")
	for _, want := range []string{"--store-nodes=3", "--drain-delay=5s", "--drain-timeout=20s", "--trusted-proxies=10.0.0.0/8", "--admin=:6070"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in\n%s", want, args)
		}
	}
	if *pod.TerminationGracePeriodSeconds <= 25 {
		t.Errorf("a grace of %d seconds", *pod.TerminationGracePeriodSeconds)
	}
	hpa := strict[autoscaling.HorizontalPodAutoscaler](t, docs, "HorizontalPodAutoscaler")
	if p := hpa.Spec.Behavior.ScaleDown.Policies[0]; p.Value != 1 || p.PeriodSeconds != 60 || hpa.Spec.MaxReplicas != 20 {
		t.Errorf("%+v of %d", p, hpa.Spec.MaxReplicas)
	}
	if p := strict[policy.PodDisruptionBudget](t, docs, "PodDisruptionBudget"); p.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("%+v", p.Spec)
	}
	if docs["ServiceMonitor"] == "" {
		t.Error("no ServiceMonitor")
	}
}

// What cannot work is said when it is installed.
func TestValuesAreChecked(t *testing.T) {
	for values, want := range map[string]string{
		"upstream: http://a":                           "admin.existingSecret",
		"serviceMonitor: {enabled: true}":              "admin.existingSecret",
		"redis: {url: 'redis://a', existingSecret: b}": "keep one",
		"redis: {url: 'memcached://a'}":                "redis",
		"replica: 3":                                   "replica",
		"replicas: many":                               "replicas",
		"drainDelay: 5":                                "drainDelay",
		"rules: {'..data': x}":                         "propertyName",
		"networkPolicy: {enable: true}":                "enable",
		"autoscaling: {enabled: true, minReplicas: 0}": "minReplicas",
	} {
		if _, err := render(load(t), values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// order is how Helm installs kinds.
var order = []string{"NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "Secret", "ConfigMap", "Service", "Deployment", "HorizontalPodAutoscaler", "ServiceMonitor"}

// helmsOwn are the labels that say that Helm manages something.
var helmsOwn = regexp.MustCompile(`(?m)^ +(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n`)

// deploy/kubernetes/weir.yaml is the chart with a Redis and nothing else:
//
//	go test . -run TestPlain -update
func TestPlain(t *testing.T) {
	docs := mustRender(t, "redis: {url: 'redis://redis:6379'}")
	text := "# Weir on three nodes that share a Redis: deploy/helm/weir with redis.url and nothing\n# else, for those who have no Helm. Made by `go test . -run TestPlain -update` in tools/helm.\n"
	for _, kind := range order {
		if docs[kind] != "" {
			text += "---\n" + helmsOwn.ReplaceAllString(docs[kind], "")
		}
	}
	if *update {
		if err := os.WriteFile(plain, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if string(was) != text {
		t.Errorf("%s is not what the chart makes: run go test . -run TestPlain -update in tools/helm", plain)
	}
}

// documents returns those of a file by kind.
func documents(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		if kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(doc); kind != nil {
			out[kind[1]] = doc
		}
	}
	return out
}

// The chart runs its nodes as deploy/kubernetes/ratelimit.yaml does, where what they
// run allows it: as whom, with what, spread how, ended how.
func TestChartIsAsTheManifests(t *testing.T) {
	theirs := documents(t, compatible)
	ours := mustRender(t, "redis: {url: 'redis://redis:6379'}")
	a, b := strict[apps.Deployment](t, theirs, "Deployment"), strict[apps.Deployment](t, ours, "Deployment")
	pa, pb := a.Spec.Template.Spec, b.Spec.Template.Spec
	ca, cb := pa.Containers[0], pb.Containers[0]
	spread := func(p core.PodSpec) []core.TopologySpreadConstraint {
		out := slices.Clone(p.TopologySpreadConstraints)
		for i := range out {
			out[i].LabelSelector = nil
		}
		return out
	}
	timing := func(p *core.Probe) core.Probe {
		q := *p
		q.HTTPGet = nil
		return q
	}
	ports := func(c core.Container) map[string]int32 {
		out := map[string]int32{}
		for _, p := range c.Ports {
			if p.Name == "http" || p.Name == "grpc" {
				out[p.Name] = p.ContainerPort
			}
		}
		return out
	}
	limit := func(c core.Container) string {
		i := slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
		if i < 0 {
			return ""
		}
		return c.Env[i].Value
	}
	sa, sb := strict[core.Service](t, theirs, "Service").Spec, strict[core.Service](t, ours, "Service").Spec
	da, db := strict[policy.PodDisruptionBudget](t, theirs, "PodDisruptionBudget").Spec, strict[policy.PodDisruptionBudget](t, ours, "PodDisruptionBudget").Spec
	for what, pair := range map[string][2]any{
		"replicas":                  {a.Spec.Replicas, b.Spec.Replicas},
		"security of the pod":       {pa.SecurityContext, pb.SecurityContext},
		"security of the container": {ca.SecurityContext, cb.SecurityContext},
		"resources":                 {ca.Resources, cb.Resources},
		"spread":                    {spread(pa), spread(pb)},
		"grace":                     {pa.TerminationGracePeriodSeconds, pb.TerminationGracePeriodSeconds},
		"startup probe":             {timing(ca.StartupProbe), timing(cb.StartupProbe)},
		"readiness probe":           {timing(ca.ReadinessProbe), timing(cb.ReadinessProbe)},
		"liveness probe":            {timing(ca.LivenessProbe), timing(cb.LivenessProbe)},
		"ports":                     {ports(ca), ports(cb)},
		"GOMEMLIMIT":                {limit(ca), limit(cb)},
		"ports of the service":      {sa.Ports, sb.Ports},
		"clusterIP":                 {sa.ClusterIP, sb.ClusterIP},
		"budget":                    {da.MaxUnavailable, db.MaxUnavailable},
		"image":                     {ca.Image, cb.Image},
		"rules are read only":       {ca.VolumeMounts[0].ReadOnly, cb.VolumeMounts[0].ReadOnly},
		"rules come from subPaths":  {ca.VolumeMounts[0].SubPath, cb.VolumeMounts[0].SubPath},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: ratelimit.yaml has %+v, the chart %+v", what, pair[0], pair[1])
		}
	}
	// A node that is told to end must have ended before it is killed.
	delay, _ := time.ParseDuration(argument(cb.Args, "drain-delay"))
	timeout, _ := time.ParseDuration(argument(cb.Args, "drain-timeout"))
	const rest = 10 * time.Second // the queue of events and the collector, five seconds each
	if grace := time.Duration(*pb.TerminationGracePeriodSeconds) * time.Second; delay == 0 || timeout == 0 || delay+timeout+rest > grace {
		t.Errorf("a drain takes %s and %s, and is cut after %s", delay, timeout, grace)
	}
}

// argument returns the value of a flag.
func argument(args []string, name string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return v
		}
	}
	return ""
}

// The command runs with the chart's arguments, on the chart's rules, answers the
// chart's probes, and ends when it is told to.
func TestChartRuns(t *testing.T) {
	dir := t.TempDir()
	weir := filepath.Join(dir, "weir")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", weir, "./cmd/weir")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("sixteen bytes or more"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]string{
		"as it is":  "drainDelay: 10ms",
		"a gateway": "{drainDelay: 10ms, upstream: 'http://127.0.0.1:1', trust: [10.0.0.0/8], trustedProxies: [10.0.0.0/8], admin: {existingSecret: a}, otel: {endpoint: 'http://127.0.0.1:1'}}",
	} {
		t.Run(name, func(t *testing.T) {
			docs := mustRender(t, values)
			rules := t.TempDir()
			for file, text := range strict[core.ConfigMap](t, docs, "ConfigMap").Data {
				if err := os.WriteFile(filepath.Join(rules, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := strict[apps.Deployment](t, docs, "Deployment").Spec.Template.Spec.Containers[0]
			moved := strings.NewReplacer("=:8080", "=127.0.0.1:0", "=:8081", "=127.0.0.1:0", ":6070", ":0", "--admin=:0", "--admin=127.0.0.1:0",
				c.VolumeMounts[0].MountPath, rules, "/run/secrets/weir/token", token, "--log-format=json", "--log-format=text") // which prints addresses
			args := make([]string, len(c.Args))
			for i, a := range c.Args {
				args[i] = moved.Replace(moved.Replace(a))
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, weir, args...)
			cmd.Env = append(os.Environ(), "WEIR_STORE=memory:")
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ports, text, buf := map[string]string{}, "", make([]byte, 4096)
			for ports["http"] == "" || ports["admin"] == "" {
				n, err := out.Read(buf)
				text += string(buf[:n])
				for name, word := range map[string]string{"http": "(?:API|gateway)", "admin": "admin"} {
					if m := regexp.MustCompile(word + ` +(http://[\d.:]+)`).FindStringSubmatch(text); m != nil {
						ports[name] = m[1]
					}
				}
				if err != nil {
					_ = cmd.Wait() // what it said is told
					t.Fatalf("weir %s\n%s%s", strings.Join(args, " "), text, said.String())
				}
			}
			for _, p := range []*core.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				res, err := http.Get(ports[p.HTTPGet.Port.String()] + p.HTTPGet.Path)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("%s on the port %s: %s", p.HTTPGet.Path, p.HTTPGet.Port.String(), res.Status)
				}
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, out)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, said.String())
			}
		})
	}
}
