package cases

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Bounds of a request over HTTP, in bytes and lines.
const (
	maxRequestBytes = 1 << 20
	maxHeaderLines  = 1000
)

// ReadRequest returns the request without a body that a client at an address sends: line
// is its method and target, such as "POST /login", a target alone is a GET; headers are
// its fields, each "Name: value". The bytes are read as a server reads them.
// An error means that it is none.
func ReadRequest(line string, headers []string, from string) (*http.Request, error) {
	method, target, ok := strings.Cut(line, " ")
	if !ok {
		method, target = http.MethodGet, line
	}
	switch {
	case !strings.HasPrefix(target, "/") && !strings.Contains(target, "://"):
		return nil, fmt.Errorf("request %q: write a method and a path, such as 'POST /login'", line)
	case strings.ContainsAny(line, "\r\n") || strings.Contains(target, " "):
		return nil, fmt.Errorf("request %q has more than a method and a path: write header fields apart, and a space in a path as %%20", line)
	case len(headers) > maxHeaderLines:
		return nil, fmt.Errorf("%d header fields are more than %d", len(headers), maxHeaderLines)
	}
	address, err := netip.ParseAddr(from)
	if err != nil {
		return nil, fmt.Errorf("from: %q is not an IP address: give one such as 203.0.113.9", from)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, target)
	hosts := 0
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if value = strings.TrimSpace(value); !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("%q is not a header field: write 'Name: value' on one line", h)
		}
		if strings.EqualFold(name, "Host") {
			hosts++
		}
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	switch {
	case hosts == 0:
		b.WriteString("Host: localhost\r\n")
	case hosts > 1:
		return nil, errors.New("the field Host is given twice: keep one, as servers refuse both")
	}
	if b.Len() > maxRequestBytes {
		return nil, fmt.Errorf("the request is larger than %d bytes", maxRequestBytes)
	}
	b.WriteString("\r\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(b.String())))
	if err != nil {
		return nil, fmt.Errorf("no server reads this request: %w", err)
	}
	r.RemoteAddr = net.JoinHostPort(address.WithZone("").String(), "1")
	return r, nil
}
