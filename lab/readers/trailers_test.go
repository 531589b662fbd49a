package readers

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/servertest"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// tenants are what requests were counted by. It limits nothing.
type tenants struct{ counted []string }

// Match implements weir.Rules.
func (c *tenants) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	for _, d := range r.Descriptors {
		for _, e := range d.Entries {
			if e.Key == "header:X-Tenant" {
				c.counted = append(c.counted, strings.Clone(e.Value))
			}
		}
	}
	return dst
}

// merged is what a server finds that merges trailers into the header.
type merged struct{ Found, Trailers []string }

// mergeTrailers serves what Go's server finds so.
func mergeTrailers(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	m := merged{[]string{}, []string{}}
	for _, fields := range []http.Header{r.Header, r.Trailer} {
		for key, lines := range fields {
			if identity.SameField(key, "x-tenant") {
				m.Found = append(m.Found, lines...)
			}
		}
	}
	for key := range r.Trailer {
		m.Trailers = append(m.Trailers, strings.ToLower(key))
	}
	_ = json.NewEncoder(w).Encode(m)
}

// TestTrailersAreNotMerged: of a limited header that is sent as a trailer too, servers that
// merge trailers into the header find what was counted, over both versions of HTTP on both
// sides; other trailers reach them.
func TestTrailersAreNotMerged(t *testing.T) {
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	serveBoth := func(h http.Handler) string {
		ln := servertest.Listen(t)
		server := &http.Server{Handler: h, Protocols: both}
		go func() { _ = server.Serve(ln) }() // until it is closed
		t.Cleanup(func() { server.Close() })
		return ln.Addr().String()
	}
	ofGo := serveBoth(http.HandlerFunc(mergeTrailers))
	ups := map[string]string{"http1 go": ofGo, "http2 go": ofGo}
	for _, version := range []string{"http1", "http2"} {
		port := fmt.Sprint(servertest.FreePort(t))
		cmd := exec.Command(servertest.Binary(t, "node"), "merging.js", version, port, "xtenant")
		cmd.Dir = "servers"
		servertest.Start(t, cmd)
		addr := "127.0.0.1:" + port
		servertest.Await(t, "node", func() bool {
			c, err := net.Dial("tcp", addr)
			return err == nil && c.Close() == nil
		})
		ups[version+" node"] = addr
	}
	var rules tenants
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer store.Close()
	limiter, err := weir.New(store, &rules, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: "header:X-Tenant"}}}, {Entries: []identity.EntryFrom{{From: "remote_address"}}}})
	if err != nil {
		t.Fatal(err)
	}
	client := func(version string) *http.Transport {
		only := new(http.Protocols)
		only.SetHTTP1(version == "http1")
		only.SetUnencryptedHTTP2(version == "http2")
		tr := &http.Transport{Protocols: only}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	for up, addr := range ups {
		version, _, _ := strings.Cut(up, " ")
		g, err := gateway.New(gateway.Options{Limits: httplimit.Options{Limiter: limiter, Identity: who, Plan: plan},
			Default: gateway.Forward{Upstream: &url.URL{Scheme: "http", Host: addr}, Transport: client(version)}})
		if err != nil {
			t.Fatal(err)
		}
		through := serveBoth(g)
		for _, from := range []string{"http1", "http2"} {
			for _, name := range []string{"X-Tenant", "x_tenant", "X.Tenant", "Xtenant", "X-Tenant-"} {
				for _, header := range []string{"", "small"} {
					rules.counted = nil
					r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+through+"/", struct{ io.Reader }{strings.NewReader("body")})
					if err != nil {
						t.Fatal(err)
					}
					if header != "" {
						r.Header.Set("X-Tenant", header)
					}
					r.Trailer = http.Header{name: {"large"}, "X-Checksum": {"1"}}
					res, err := client(from).RoundTrip(r)
					if err != nil {
						t.Fatalf("%s to %s, %s: %v", from, up, name, err)
					}
					var m merged
					if err := json.NewDecoder(res.Body).Decode(&m); err != nil || res.Body.Close() != nil {
						t.Fatalf("%s to %s, %s: %d %v", from, up, name, res.StatusCode, err)
					}
					if !slices.Equal(m.Found, rules.counted) && len(m.Found)+len(rules.counted) > 0 {
						t.Errorf("%s to %s, trailer %s: counted by %q, and the server finds %q", from, up, name, rules.counted, m.Found)
					}
					if !slices.Equal(m.Trailers, []string{"x-checksum"}) {
						t.Errorf("%s to %s, trailer %s: the server has the trailers %q", from, up, name, m.Trailers)
					}
				}
			}
		}
	}
}
