package demo

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// serveShop answers as the upstream does: nobody's password is right.
func serveShop(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" && r.Method == http.MethodPost {
		http.Error(w, "wrong password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "served by the shop behind the gateway")
}

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
	s.server = http.Server{Handler: http.HandlerFunc(serveShop), ReadHeaderTimeout: 5 * time.Second}
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
