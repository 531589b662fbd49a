package servertest

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Listen returns a listener on a free loopback port, which is closed when the test ends
// if it was not before.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() }) // its server may have closed it
	return ln
}

// Body reads and closes the body of a response.
func Body(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Sample returns the value of a series in the Prometheus text format. The series is its
// name and its labels as the text has them. ok tells whether there is one.
func Sample(t testing.TB, text, series string) (value float64, ok bool) {
	t.Helper()
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, series+" ")
		if !found {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
		if err != nil {
			t.Fatal(err)
		}
		return value, true
	}
	return 0, false
}
