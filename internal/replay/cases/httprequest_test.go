package cases_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/replay/cases"
)

func TestReadRequest(t *testing.T) {
	r, err := cases.ReadRequest("POST /login?x=%20", []string{"Host: example.com", "X-API-Key:k1", "x-api-key: k2"}, "203.0.113.9")
	if err != nil {
		t.Fatal(err)
	}
	if r.Method != "POST" || r.RequestURI != "/login?x=%20" || r.Host != "example.com" || r.RemoteAddr != "203.0.113.9:1" || strings.Join(r.Header["X-Api-Key"], " ") != "k1 k2" {
		t.Errorf("%+v", r)
	}
	if r, err = cases.ReadRequest("http://a.example/x", nil, "2001:db8::1"); err != nil || r.Method != "GET" || r.Host != "a.example" || r.RemoteAddr != "[2001:db8::1]:1" {
		t.Errorf("%+v, %v", r, err)
	}
	f := func(want, line, from string, headers ...string) {
		t.Helper()
		if _, err := cases.ReadRequest(line, headers, from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
	f("write a method and a path", "POST", "::1")
	f("write a method and a path", "", "::1")
	f("write a method and a path", "POST login", "::1")
	f("a space in a path as %20", "GET /a b", "::1")
	f("more than a method and a path", "GET /a\r\nX: y", "::1")
	f("no server reads this", "G\x00T /", "::1")
	f("is not an IP address", "GET /", "localhost")
	f("is not a header field", "GET /", "::1", "X-API-Key")
	f("is not a header field", "GET /", "::1", "X: a\nY: b")
	f("is not a header field", "GET /", "::1", "X Y: b")
	f("Host is given twice", "GET /", "::1", "Host: a", "host: b")
	f("more than 1000", "GET /", "::1", make([]string, 1001)...)
	f("larger than", "GET /", "::1", "X: "+strings.Repeat("x", 1<<20))
}

// FuzzReadRequest: a request has the fields that were given and no other, and the address.
func FuzzReadRequest(f *testing.F) {
	f.Add("POST /login", "X-API-Key: k1", "203.0.113.9")
	f.Add("GET /\r\nA: b", "A: b\r\nC: d", "::1%eth0")
	f.Add("http://h/x", "Host: y", "127.0.0.1")
	f.Fuzz(func(t *testing.T, line, header, from string) {
		r, err := cases.ReadRequest(line, []string{header}, from)
		if err != nil {
			return
		}
		if _, err := netip.ParseAddrPort(r.RemoteAddr); err != nil {
			t.Errorf("%q: the peer is %q", from, r.RemoteAddr)
		}
		n := 0
		for _, lines := range r.Header {
			n += len(lines)
		}
		if n > 1 {
			t.Errorf("%q: %d fields: %q", header, n, r.Header)
		}
		if !strings.Contains(line, r.RequestURI) {
			t.Errorf("%q: the target is %q", line, r.RequestURI)
		}
	})
}
