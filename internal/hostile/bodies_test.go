package hostile

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// almost is a body one byte short of the largest that the API takes.
const almost = 1<<20 - 1

// neighbourAPI asks the API for a small check.
func (s *node) neighbourAPI() error {
	res, err := neighbour.Post("http://"+s.addr+"/v1/check", "application/json",
		strings.NewReader(`{"descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("a small check is answered %d", res.StatusCode)
	}
	return nil
}

// TestFamilyUnfinishedBodies: clients that begin large bodies and do not end them
// hold no more memory together than the budget of bodies has, on however many
// connections and streams, and small requests are answered meanwhile.
func TestFamilyUnfinishedBodies(t *testing.T) {
	t.Run("connections", func(t *testing.T) {
		s := serve(t, "--limit", unlimited)
		conns := make([]net.Conn, 300)
		for i := range conns {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			conns[i] = c
		}
		s.attackBeside(t, 200*mib, s.neighbourAPI, func() {
			head := fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", almost+1)
			body := `{"checks":[` + strings.Repeat(" ", almost-11)
			each(16, func(w int) {
				for i := w; i < len(conns); i += 16 {
					_ = conns[i].SetDeadline(time.Now().Add(20 * time.Second))
					_, _ = io.WriteString(conns[i], head+body) // some are refused in the middle
				}
			})
			for _, c := range conns {
				c.Close()
			}
		})
	})
	t.Run("streams", func(t *testing.T) {
		s := serve(t, "--limit", unlimited)
		s.attackBeside(t, 250*mib, s.neighbourAPI, func() {
			var wg sync.WaitGroup
			var refused atomic.Int64
			release := make(chan struct{})
			for range 6 {
				protocols := new(http.Protocols)
				protocols.SetUnencryptedHTTP2(true)
				client := &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: 15 * time.Second}
				defer client.CloseIdleConnections()
				for range 100 {
					wg.Go(func() {
						in, out := io.Pipe()
						go func() {
							_, _ = io.WriteString(out, `{"checks":[`+strings.Repeat(" ", almost-11))
							<-release
							out.CloseWithError(io.ErrUnexpectedEOF)
						}()
						res, err := client.Post("http://"+s.addr+"/v1/check", "application/json", in)
						if err == nil {
							if res.StatusCode == http.StatusServiceUnavailable {
								refused.Add(1)
							}
							res.Body.Close()
						}
						in.Close()
					})
				}
			}
			wg.Wait()
			close(release)
			if refused.Load() == 0 {
				t.Error("600 unfinished bodies of a MiB, and none was refused")
			}
		})
	})
}
