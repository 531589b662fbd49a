package node_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// figuresOf is what the overview says of requests.
type figuresOf struct {
	Totals struct {
		Decisions    int64
		Counts       map[string]int64
		RefusedShare float64 `json:"refused_share"`
	}
	Requests *struct {
		Requests     int64
		Refused      int64
		RefusedShare float64 `json:"refused_share"`
	}
}

// What is said to be refused is the share of requests that were, as whoever counts
// answers at the socket finds it: with several limits for a request, of which one
// refuses, several do, one only would, and for requests that meet no limit.
func TestFamilyRefusedShare(t *testing.T) {
	t.Parallel() // each waits for its roll-ups
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }))
	t.Cleanup(upstream.Close)
	for name, rules := range map[string]string{
		"three limits, one refuses": `
domain: api
descriptors:
  - {key: path, value: /a, limit: 4/hour}
  - {key: method, limit: 1000/hour}
  - {key: remote_address, limit: 1000/hour}
`,
		"two refuse": `
domain: api
descriptors:
  - {key: path, value: /a, limit: 4/hour}
  - {key: method, limit: 9/hour}
  - {key: remote_address, limit: 9/hour}
`,
		"one would": `
domain: api
descriptors:
  - {key: path, value: /a, limit: 4/hour, mode: shadow}
  - {key: method, limit: 20/hour}
  - {key: remote_address, limit: 1000/hour}
`,
		"one delays for too long": `
domain: api
descriptors:
  - {key: path, value: /a, limit: 1/hour, algorithm: leaky_queue, burst: 5}
  - {key: path, value: /b, limit: 4/hour}
  - {key: method, limit: 1000/hour}
`,
		"some meet none": `
domain: api
descriptors:
  - {key: path, value: /a, limit: 4/hour}
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "rules.yaml")
			if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
				t.Fatal(err)
			}
			c := config.Defaults()
			c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0", ""
			c.Rules, c.Upstream, c.Analytics.URL = file, upstream.URL, "memory:"
			c.Routes = []config.Route{{Path: "/*", Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "path"}}}, {Entries: []identity.EntryFrom{{From: "method"}}}, {Entries: []identity.EntryFrom{{From: "remote_address"}}}}}}
			r := run(t, c)
			total, refused := int64(0), int64(0)
			for i := range 60 {
				path := [...]string{"/a", "/b", "/c"}[i%3]
				res, err := client.Get(r.URLs["http"] + path)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				total++
				if res.StatusCode == http.StatusTooManyRequests {
					refused++
				} else if res.StatusCode != http.StatusOK {
					t.Fatalf("%s", res.Status)
				}
			}
			if refused == 0 || refused == total {
				t.Fatalf("%d of %d were refused: the test shows nothing", refused, total)
			}
			var o figuresOf
			servertest.Await(t, "all requests in the overview", func() bool {
				o = figuresOf{}
				return r.question(t, "overview", "", &o) == 200 && o.Requests != nil && o.Requests.Requests >= total
			})
			share := float64(refused) / float64(total)
			if near := func(got float64) bool { return got > share-1e-5 && got < share+1e-5 }; o.Requests.Requests != total || o.Requests.Refused != refused ||
				!near(o.Requests.RefusedShare) || !near(o.Totals.RefusedShare) {
				t.Errorf("%d of %d requests were refused at the socket, %.4f; the overview says %+v and %+v", refused, total, share, *o.Requests, o.Totals)
			}
			if _, metrics := get(t, r.URLs["admin"]+"/metrics"); !strings.Contains(metrics, fmt.Sprintf("\nweir_requests_total{result=\"refused\"} %d\n", refused)) ||
				!strings.Contains(metrics, fmt.Sprintf("\nweir_requests_total{result=\"allowed\"} %d\n", total-refused)) {
				t.Errorf("%d of %d requests were refused at the socket, the metrics say other than so", refused, total)
			}
		})
	}
}
