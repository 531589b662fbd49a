package gateway_test

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// TestForwardedFor: what the upstream hears of who forwarded for whom, from
// peers that are trusted and from others.
func TestForwardedFor(t *testing.T) {
	// said is what the upstream sees of the fields that matter, a line each.
	said := func(t *testing.T, trusted, header string, fields ...string) string {
		t.Helper()
		seen := make(chan http.Header, 1)
		proxies := identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix(trusted)}, Header: header}
		who, err := identity.New(identity.Options{Proxies: proxies, User: []string{"header:X-User"}})
		if err != nil {
			t.Fatal(err)
		}
		srv := serve(t, clocked.New(t), weir.Limits{}, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header }, gateway.Options{
			Limits: httplimit.Options{Identity: who}, ClientHeader: header, ProxyHeaders: []string{"X-User"},
		})
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: api.example\r\nUser-Agent: x\r\n%s\r\n\r\n", strings.Join(append(fields, ""), "\r\n"))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		h := <-seen
		h.Del("User-Agent")
		var out []string
		for _, k := range slices.Sorted(maps.Keys(h)) {
			out = append(out, k+": "+strings.Join(h[k], " | "))
		}
		return strings.Join(out, "\n")
	}
	f := func(name, trusted, header string, fields []string, want ...string) {
		t.Run(name, func(t *testing.T) {
			if got := said(t, trusted, header, fields...); got != strings.Join(want, "\n") {
				t.Errorf("the upstream saw\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		})
	}
	const us, others = "127.0.0.0/8", "10.0.0.0/8"
	host, http := "X-Forwarded-Host: api.example", "X-Forwarded-Proto: http"
	claims := []string{
		"X-Forwarded-For: 192.0.2.1", "x_forwarded_for: 192.0.2.2", "Forwarded: for=192.0.2.3", "X-Forwarded-Proto: https",
		"X_Forwarded_Proto: https", "X-Forwarded-Host: shop.example", "X-Forwarded-Port: 443", "X-Forwarded-Prefix: /x",
		"X-Real-IP: 192.0.2.4", "CF-Connecting-IP: 192.0.2.5", "True_Client-IP: 192.0.2.6", "X-User: root", "x_user: root", "X-Other: kept",
	}
	f("a stranger is not believed", others, "X-Forwarded-For", claims,
		"X-Forwarded-For: 127.0.0.1", host, http, "X-Other: kept")
	f("nothing said", us, "X-Forwarded-For", nil,
		"X-Forwarded-For: 127.0.0.1", host, http)
	f("appended", us, "X-Forwarded-For", claims,
		"X-Forwarded-For: 192.0.2.1, 127.0.0.1", "X-Forwarded-Host: shop.example", "X-Forwarded-Port: 443", "X-Forwarded-Proto: https", "X-Other: kept", "X-User: root")
	f("lines joined", us, "X-Forwarded-For", []string{"X-Forwarded-For: 192.0.2.1, 198.51.100.1", "X-Forwarded-For: 10.1.1.1"},
		"X-Forwarded-For: 192.0.2.1, 198.51.100.1, 10.1.1.1, 127.0.0.1", host, http)
	f("forwarded", us, "Forwarded", []string{`Forwarded: for="[2001:db8::1]:99";proto=https`, "Forwarded: for=198.51.100.1", "X-Forwarded-For: 192.0.2.9"},
		`Forwarded: for="[2001:db8::1]:99";proto=https, for=198.51.100.1, for=127.0.0.1;host="api.example";proto=http`,
		"X-Forwarded-For: 198.51.100.1, 127.0.0.1", host, http)
	f("an open quote", us, "Forwarded", []string{`Forwarded: for="192.0.2.1\", for=192.0.2.2`},
		`Forwarded: for=127.0.0.1;host="api.example";proto=http`, "X-Forwarded-For: 192.0.2.2, 127.0.0.1", host, http)
	f("one address", us, "CF-Connecting-IP", []string{"CF-Connecting-IP: 192.0.2.5", "X-Forwarded-For: 192.0.2.9", "cf_connecting_ip: 192.0.2.6"},
		"Cf-Connecting-Ip: 192.0.2.5", "X-Forwarded-For: 192.0.2.5, 127.0.0.1", host, http)
	f("two of what should be one", us, "X-Forwarded-For", []string{"X-Forwarded-Proto: https", "X-Forwarded-Proto: http", "X-Forwarded-Host: "},
		"X-Forwarded-For: 127.0.0.1", host, http)
}

// TestFamilyClaims: what only Weir or a trusted proxy may say does not reach the
// upstream from anybody else, as often and however it is spelt; every field that
// docs/reference/generated/forwarding.md lists, and the fields that the configuration names.
func TestFamilyClaims(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/generated/forwarding.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := func(row string) (names []string) {
		_, rest, ok := strings.Cut(string(text), row)
		if !ok {
			t.Fatalf("docs/reference/generated/forwarding.md has no row %q", row)
		}
		_, rest, _ = strings.Cut(rest, "|")
		line, _, _ := strings.Cut(rest, "\n")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
			names = append(names, strings.Replace(m[1], "*", "Xyz", 1))
		}
		return names
	}
	fromNobody, fromProxies := listed("| from everybody"), listed("| from all but trusted proxies")
	if len(fromNobody) < 40 || len(fromProxies) < 30 {
		t.Fatalf("%d and %d fields are listed", len(fromNobody), len(fromProxies))
	}
	for _, must := range strings.Fields("Client-IP X-Originating-IP Fly-Client-IP X-Azure-ClientIP X-Envoy-External-Address X-Original-Forwarded-For Proxy X-Original-URL X-Rewrite-URL X-HTTP-Method-Override Forwarded-For") {
		if !slices.Contains(fromNobody, http.CanonicalHeaderKey(must)) {
			t.Errorf("%s is not listed", must)
		}
	}
	var saw http.Header
	client := &http.Client{}
	start := func(trusted string) string {
		who, err := identity.New(identity.Options{User: []string{"header:X-Known-User"}, MethodOverride: "X-Verb",
			Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix(trusted)}, Header: "X-Real-IP"}})
		if err != nil {
			t.Fatal(err)
		}
		srv := serve(t, clocked.New(t), weir.Limits{}, func(_ http.ResponseWriter, r *http.Request) { saw = r.Header }, gateway.Options{
			Limits: httplimit.Options{Identity: who}, ClientHeader: "X-Real-IP", ProxyHeaders: []string{"X-Known-User"},
		})
		return srv.URL
	}
	open, behind := start("10.0.0.0/8"), start("127.0.0.0/8")
	const value = "203.0.113.99"
	// reaches reports whether the upstream sees a field that the client sends.
	reaches := func(url, method, name string) bool {
		req, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header[name] = []string{value}
		req.Header["X-Other"] = []string{"kept"}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == 400 {
			return false
		}
		if res.StatusCode != 200 || saw.Get("X-Other") != "kept" {
			t.Fatalf("%s: %d, the upstream saw %v", name, res.StatusCode, saw)
		}
		for key, lines := range saw {
			if key != "X-Forwarded-For" && key != "X-Real-Ip" && slices.Contains(lines, value) {
				return true
			}
		}
		return false
	}
	spellings := func(name string) []string {
		return []string{name, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.Replace(name, "-", "_", 1), strings.ReplaceAll(name, "-", "."), strings.Replace(name, "-", "~", 1)}
	}
	for _, name := range append(append(slices.Clone(fromNobody), fromProxies...), "X-Known-User", "X-Real-IP") {
		for i, spelt := range spellings(name) {
			if reaches(open, "POST", spelt) {
				t.Errorf("from a stranger, %s reaches the upstream", spelt)
			}
			believed := i < 3 || spelt == name
			switch {
			case slices.Contains(fromProxies, name) && believed, name == "X-Known-User" && believed:
				if !reaches(behind, "POST", spelt) {
					t.Errorf("from a trusted proxy, %s does not reach the upstream", spelt)
				}
			case reaches(behind, "POST", spelt):
				t.Errorf("from a trusted proxy, %s reaches the upstream", spelt)
			}
		}
	}
	for i, spelt := range spellings("X-Verb") {
		if got := reaches(open, "POST", spelt); got != (i < 3) && spelt != "X-Verb" {
			t.Errorf("POST with %s: forwarded is %v", spelt, got)
		}
		if reaches(open, "GET", spelt) {
			t.Errorf("GET with %s: it is forwarded", spelt)
		}
	}
}
