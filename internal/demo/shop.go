package demo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

// serveShop answers as the upstream does: nobody's password is right.
func serveShop(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" && r.Method == http.MethodPost {
		http.Error(w, "wrong password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "served by the shop behind the gateway")
}

// serveSlowly is serveShop after as long as a shop takes.
func serveSlowly(w http.ResponseWriter, r *http.Request) {
	if backoff.Sleep(r.Context(), drawWork()) {
		serveShop(w, r)
	}
}

// drawWork draws how long the shop takes for a response.
func drawWork() time.Duration { return 15*time.Millisecond + rand.N(45*time.Millisecond) }

// shop is the upstream on a port of its own. Close it.
type shop struct {
	server http.Server
	url    string
	ended  chan error
}

func openShop() (*shop, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the upstream of the demo: %w", err)
	}
	s := &shop{url: "http://" + ln.Addr().String(), ended: make(chan error, 1)}
	s.server = http.Server{Handler: http.HandlerFunc(serveSlowly), ReadHeaderTimeout: 5 * time.Second}
	go func() { s.ended <- s.server.Serve(ln) }()
	return s, nil
}

func (s *shop) close() error {
	err := s.server.Close()
	if served := <-s.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
