package server

import (
	"fmt"
	"net"
	"strings"
)

// Ready tells where a server listens.
type Ready struct {
	// URLs are by section: "http", "admin", "grpc", "resp". That of a Unix socket is unix: and its
	// path.
	URLs map[string]string
	// Upstream is where the gateway forwards to in words, empty without one.
	Upstream string
	// ForwardAuth is the path that proxies ask at, empty without one.
	ForwardAuth string
	// Forward and Ask are commands that send the gateway a request and ask the API.
	// They meet the first limit in force. Ask says in parentheses why there is none.
	Forward, Ask string
	// GRPCFor says who may use gRPC, empty for whoever reaches it.
	GRPCFor string
}

// String says where to go, for a person who has just started a server.
func (r Ready) String() string {
	var b strings.Builder
	base := r.URLs["http"]
	if r.Upstream != "" {
		fmt.Fprintf(&b, "gateway  %s  ->  %s\n", base, r.Upstream)
		fmt.Fprintf(&b, "         %s\n", r.Forward)
	}
	fmt.Fprintf(&b, "API      %s\n         %s\n", base, r.Ask)
	if r.ForwardAuth != "" {
		fmt.Fprintf(&b, "proxies  %s  (forward-auth)\n", curlTo(base, r.ForwardAuth))
	}
	if grpc, ok := r.URLs["grpc"]; ok {
		fmt.Fprintf(&b, "gRPC     %s  (weir.v1, Envoy%s)\n", grpc, r.GRPCFor)
	}
	if redis, ok := r.URLs["resp"]; ok {
		fmt.Fprintf(&b, "redis    redis-cli %s CL.THROTTLE user123 15 30 60\n", redisTo(redis))
	}
	if admin, ok := r.URLs["admin"]; ok {
		fmt.Fprintf(&b, "admin    %s/  (dashboard, metrics, health, rules)\n", admin)
	}
	return b.String()
}

// announce logs where the node listens and calls ready.
func (s *Server) announce(listeners []net.Listener, ready func(Ready)) {
	r := Ready{URLs: make(map[string]string), ForwardAuth: s.conf.ForwardAuth.Prefix}
	for i, f := range s.listeners {
		addr := listeners[i].Addr().String()
		r.URLs[f.section] = urlOf(listeners[i].Addr(), f.scheme, f.tls.Cert != "")
		s.log.Info("listening", "section", f.section, "addr", addr, "tls", f.tls.Cert != "")
	}
	if u, err := s.conf.upstream(); err == nil && u != nil {
		r.Upstream = u.Redacted()
	} else if n := len(s.conf.Routes); n > 0 && s.conf.forwards() {
		r.Upstream = fmt.Sprintf("%d routes", n)
		if n == 1 {
			r.Upstream = "1 route"
		}
	}
	g := guide{s.conf, s.token, s.rules}
	r.Forward, r.Ask = g.howToForward(r.URLs["http"]), g.howToAsk(r.URLs["http"])
	if guardsGRPC(s.conf) && !trustsLoopback(s.conf) {
		r.GRPCFor = "; answers nobody: it is for --trust ADDRESS alone"
		if len(s.conf.Trust) > 0 {
			r.GRPCFor = "; for --trust " + strings.Join(s.conf.Trust, ",")
		}
	}
	if ready != nil {
		ready(r)
	}
}
