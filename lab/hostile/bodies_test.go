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

	"github.com/weirlimit/weir/internal/testing/servertest"
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

// staysBelow reports it when the node has used more memory than most.
func (s *node) staysBelow(t *testing.T, most int64) {
	t.Helper()
	if _, peak := s.memory(t); peak > most {
		t.Errorf("the node used %d MiB, want at most %d", peak>>20, most>>20)
	}
}

// multiplexing returns a client that uses HTTP/2 without encryption. It closes a
// connection by itself soon after its last request: one that is answered before its body
// is sent ends only after the answer, so CloseIdleConnections may find it in use.
func multiplexing(timeout time.Duration) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols, IdleConnTimeout: time.Second}, Timeout: timeout}
}

// TestFamilyUnfinishedBodies: clients that begin large bodies and do not end them
// hold no more memory together than the budget of bodies has, on however many
// connections and streams, and small requests are answered meanwhile.
func TestFamilyUnfinishedBodies(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "256MiB") // which the node has
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
		defer s.staysBelow(t, 256*mib)
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
		defer s.staysBelow(t, 256*mib)
		s.attackBeside(t, 250*mib, s.neighbourAPI, func() {
			var wg sync.WaitGroup
			var refused atomic.Int64
			release := make(chan struct{})
			for range 6 {
				client := multiplexing(15 * time.Second)
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

// TestFamilyUnfinishedMessages: the same over gRPC, where whoever finds no room is told
// RESOURCE_EXHAUSTED.
func TestFamilyUnfinishedMessages(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "256MiB")
	for name, conns := range map[string]int{"connections": 300, "streams": 6} {
		t.Run(name, func(t *testing.T) {
			streams := max(1, 600/conns/100*100)
			s := serve(t, "--limit", unlimited, "--grpc", "127.0.0.1:0", "--config", servertest.Config(t, "grpc: {call_timeout: 5s}"))
			defer s.staysBelow(t, 256*mib)
			s.addr = s.Listening("grpc")
			s.attackBeside(t, 200*mib, askOn(s.grpcClient(t)), func() {
				var wg sync.WaitGroup
				var refused atomic.Int64
				release := make(chan struct{})
				for range conns {
					client := multiplexing(time.Minute)
					defer client.CloseIdleConnections()
					for range streams {
						wg.Go(func() {
							in, out := io.Pipe()
							go func() {
								part := "\x00\x00\x10\x00\x00" + strings.Repeat("\x00", almost)
								_, err := io.WriteString(out, part)
								if err == nil {
									<-release
								}
								out.CloseWithError(io.ErrUnexpectedEOF)
							}()
							ask, err := http.NewRequest("POST", "http://"+s.addr+shouldRateLimit, in)
							if err != nil {
								t.Error(err)
								return
							}
							ask.Header.Set("Content-Type", "application/grpc")
							ask.Header.Set("Te", "trailers")
							res, err := client.Do(ask)
							if err == nil {
								res.Body.Close()
							} else if strings.Contains(err.Error(), "ENHANCE_YOUR_CALM") {
								refused.Add(1)
							}
							in.Close()
						})
					}
				}
				wg.Wait() // those that were let in end by their time
				close(release)
				if refused.Load() == 0 {
					t.Errorf("%d unfinished messages of a MiB, and none was refused", conns*streams)
				}
				t.Logf("%d of %d refused", refused.Load(), conns*streams)
			})
		})
	}
}
