package chromium

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// The rules of the tests: what a client may have is so little that it is refused
// on a slow machine too.
const ruleFile = `domain: api
descriptors:
  - key: client_id
    limit: 100/day
    algorithm: token_bucket
  - key: remote_address
    limit: 60/hour
    algorithm: token_bucket
    burst: 20
  - key: auth
    value: login
    descriptors:
      - key: remote_address
        limit: 5/hour
        algorithm: sliding_window
        mode: shadow
  - key: export
    limit: 10/hour
    algorithm: leaky_bucket
`

const configFile = `http: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
grpc: {listen: ""}
log: {format: json}
identity:
  proxies: {trusted: [127.0.0.1/32], header: X-Forwarded-For}
routes:
  - path: /login
    descriptors:
      - entries: [remote_address]
      - entries: [{key: auth, from: "value:login"}, remote_address]
  - path: /*
    descriptors:
      - entries: [remote_address]
`

// node is a running command.
type node struct {
	t           *testing.T
	dir         string // has rules.yaml
	api, admin  string
	proc        *servertest.Process
	bearerToken string
}

// serve starts the command as a gateway before an upstream of its own, with
// further flags.
func serve(t *testing.T, args ...string) *node {
	t.Helper()
	return serveRules(t, ruleFile, args...)
}

func serveRules(t *testing.T, rules string, args ...string) *node {
	t.Helper()
	dir := t.TempDir()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/missing") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintln(w, "served")
	}))
	t.Cleanup(upstream.Close)
	for name, text := range map[string]string{"weir.yaml": configFile, "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := servertest.Invoke(command, append([]string{"serve", "--config", "weir.yaml", "--rules", "rules.yaml",
		"--upstream", upstream.URL, "--trust", "127.0.0.1", "WEIR_EVENTS_NODE=edge-1"}, args...)...)
	cmd.Dir = dir
	p := servertest.Serve(t, cmd, "http", "admin")
	return &node{t: t, dir: dir, proc: p, api: p.URL("http"), admin: p.URL("admin")}
}

// ask sends a request and returns the answer's body.
func (n *node) ask(method, u, body string, headers ...string) []byte {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, u, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if n.bearerToken != "" {
		r.Header.Set("Authorization", "Bearer "+n.bearerToken)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return data
}

// admins reads an answer of the admin port.
func admins[T any](n *node, path string, params url.Values) T {
	n.t.Helper()
	if len(params) > 0 {
		path += "?" + params.Encode()
	}
	data := n.ask("GET", n.admin+path, "")
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		n.t.Fatalf("%s: %v\n%s", path, err, data)
	}
	return v
}

// explained is what /v1/explain says of a client.
type explained struct {
	Decision struct {
		Allowed   bool
		Remaining int64
	}
	Overlay []struct{ Kind, Rate string }
}

func (n *node) explain(client string) explained {
	n.t.Helper()
	data := n.ask("POST", n.admin+"/v1/explain", fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":{"client_id":%q}}]}`, client))
	var x explained
	if err := json.Unmarshal(data, &x); err != nil {
		n.t.Fatalf("%v\n%s", err, data)
	}
	return x
}

// spend asks for units of a client through the API.
func (n *node) spend(client string, times int) {
	n.t.Helper()
	body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":{"client_id":%q}}]}`, client)
	for range times {
		if answer := n.ask("POST", n.api+"/v1/check", body); !bytes.Contains(answer, []byte(`"allowed"`)) {
			n.t.Fatalf("check: %s", answer)
		}
	}
}

// visit sends requests of an address through the gateway.
func (n *node) visit(address, path, agent string, times int) {
	n.t.Helper()
	for range times {
		n.ask("GET", n.api+path, "", "X-Forwarded-For", address, "User-Agent", agent)
	}
}

// posted returns what /v1/explain says of a body.
func posted[T any](n *node, body string) (v T) {
	n.t.Helper()
	data := n.ask("POST", n.admin+"/v1/explain", body)
	if err := json.Unmarshal(data, &v); err != nil {
		n.t.Fatalf("%v\n%s", err, data)
	}
	return v
}
