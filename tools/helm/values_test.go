package helm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// readMap reads a file of YAML or JSON.
func readMap(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// free are the values whose keys are the user's, or another's.
var free = []string{"rules", "affinity", "nodeSelector", "podAnnotations", "podLabels", "resources.limits", "resources.requests",
	"service.annotations", "serviceAccount.annotations", "serviceMonitor.labels"}

// The schema knows each value, refuses it with another type, and refuses what it does not
// know beside it.
func TestSchemaRefusesWrongValues(t *testing.T) {
	c, asked := load(t), 0
	refused := func(path string, value any) {
		asked++
		at := strings.Split(path, ".")
		for _, key := range slices.Backward(at) {
			value = map[string]any{key: value}
		}
		text, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := render(c, string(text)); err == nil || !strings.Contains(err.Error(), "schema") {
			t.Errorf("the schema takes %s: %v", text, err)
		}
	}
	var walk func(path string, value any, schema map[string]any)
	walk = func(path string, value any, schema map[string]any) {
		if schema == nil {
			t.Errorf("values.schema.json does not know %s", path)
			return
		}
		if values, ok := value.(map[string]any); ok {
			known, _ := schema["properties"].(map[string]any)
			for key, v := range values {
				if s, _ := known[key].(map[string]any); !slices.Contains(free, path) {
					walk(strings.TrimPrefix(path+"."+key, "."), v, s)
				}
			}
			if !slices.Contains(free, path) {
				refused(strings.TrimPrefix(path+".unknown", "."), 1)
			}
			return // Helm itself keeps a map from becoming something else
		}
		for _, other := range []any{[]any{[]any{}}, 1.5, true, "no such: value"} {
			if fmt.Sprintf("%T", other) != fmt.Sprintf("%T", value) {
				refused(path, other)
			}
		}
	}
	walk("", readMap(t, chartFolder+"/values.yaml"), readMap(t, chartFolder+"/values.schema.json"))
	if asked < 100 {
		t.Errorf("only %d values were tried", asked)
	}
}

// An image is named by its digest, which is checked, or by its tag.
func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	version := load(t).Metadata.AppVersion
	for values, want := range map[string]string{
		"":                                  "ghcr.io/weirlimit/weir:" + version,
		"image: {tag: v9}":                  "ghcr.io/weirlimit/weir:v9",
		"image: {digest: '" + digest + "'}": "ghcr.io/weirlimit/weir@" + digest,
		"image: {repository: 'localhost:5000/a/weir', digest: '" + digest + "'}": "localhost:5000/a/weir@" + digest,
	} {
		if docs := mustRender(t, values); !strings.Contains(docs["Deployment"], "image: \""+want+"\"\n") {
			t.Errorf("%s: want the image %s in\n%s", values, want, docs["Deployment"])
		}
	}
	if text, err := os.ReadFile("../../deploy/envoy-gateway/envoy-gateway.yaml"); err != nil || !strings.Contains(string(text), "image: ghcr.io/weirlimit/weir:"+version+"\n") {
		t.Errorf("envoy-gateway.yaml names another image than the chart: %v", err)
	}
	for values, want := range map[string]string{
		"image: {digest: 'sha256:0123'}":             "digest",
		"image: {digest: '" + digest[7:] + "'}":      "digest",
		"image: {tag: v9, digest: '" + digest + "'}": "keep one",
		"image: {tag: 'a b'}":                        "tag",
		"image: {repository: 'weir:v9'}":             "repository",
	} {
		if _, err := render(load(t), values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// What Kubernetes' own schema merges by a key, such as ports and variables, is there once,
// and has the type that it asks for, in everything that the chart makes.
func TestKubernetesTakesWhatIsMade(t *testing.T) {
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for _, values := range []string{"", full, "redis: {url: 'redis://r:6379'}"} {
		for kind, text := range mustRender(t, values) {
			if kind == "ServiceMonitor" {
				continue // not of Kubernetes itself
			}
			var doc unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(text), &doc.Object); err != nil {
				t.Fatal(err)
			}
			if _, err := converter.ObjectToTyped(&doc); err != nil {
				t.Errorf("%s: %v\n%s", kind, err, text)
			}
			if why := validation.IsDNS1123Label(doc.GetName()); len(why) > 0 {
				t.Errorf("%s: the name %q: %v", kind, doc.GetName(), why)
			}
		}
	}
}
