package identity_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
)

// read parses a request, whose lines may end in \n, as a server would.
func read(t testing.TB, peer, text string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = peer
	return r
}

func canonical(name string) string { return http.CanonicalHeaderKey(name) }

// fill writes the descriptors that a plan makes on one line.
func fill(t testing.TB, p *identity.Plan, c *identity.Caller) string {
	t.Helper()
	var req weir.Request
	if err := p.Fill(&req, c); err != nil {
		t.Fatal(err)
	}
	return show(&req)
}
