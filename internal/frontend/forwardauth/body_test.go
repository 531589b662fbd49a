package forwardauth_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A proxy that announces a body and sends none, as one does that hands on the
// client's Content-Length alone, is answered at once.
func TestBodiesThatDoNotCome(t *testing.T) {
	d := open(t, weir.PerHour(1, algorithm.FixedWindow))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = "10.0.0.1:1"
		d.ServeHTTP(w, r)
	}))
	defer srv.Close()
	for _, length := range []string{"Content-Length: 10", "Content-Length: 10000000", "Transfer-Encoding: chunked"} {
		for _, target := range []string{"/auth/x", "/auth", "/auth/x", "/elsewhere"} { // yes, unclear, no, not found
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("POST " + target + " HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 203.0.113.7\r\n" + length + "\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Errorf("%s, %s: %v", target, length, err)
			} else if res.Body.Close(); res.StatusCode == 200 && target != "/auth/x" {
				t.Errorf("%s: %d", target, res.StatusCode)
			}
			c.Close()
		}
	}
}
