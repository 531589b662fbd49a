package node

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/redact"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/shed"
)

// Ready tells where a server listens, and by what it decides.
type Ready struct {
	// Limits are the first limits in force, in words, and MoreLimits how many others there are.
	Limits     []string
	MoreLimits int
	// URLs are by section: "http", "admin", "grpc", "resp". That of a Unix socket is unix: and its
	// path.
	URLs map[string]string
	// Upstream is where the gateway forwards to in words, empty without one.
	Upstream string
	// ForwardAuth is the path that proxies ask at, empty without one.
	ForwardAuth string
	// Forward, Proxy, Ask and Redis are commands that send the gateway a request, ask as
	// a proxy does, ask the API and ask over the Redis protocol. They meet the first
	// limit in force. Ask may say in parentheses why there is none; any may be empty.
	Forward, Proxy, Ask, Redis string
	// GRPC names what is served over gRPC, and who may use it.
	GRPC string
}

// String says where to go, for a person who has just started a server.
func (r Ready) String() string {
	var b strings.Builder
	label := "limits"
	line := func(text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-8s %s\n", label, text)
			label = ""
		}
	}
	section := func(name string, lines ...string) {
		label = name
		for _, l := range lines {
			line(l)
		}
	}
	section("limits", r.Limits...)
	if r.MoreLimits > 0 {
		line(fmt.Sprintf("and %d more", r.MoreLimits))
	}
	base, http := r.URLs["http"]
	if http && r.Upstream != "" {
		section("gateway", base+"  ->  "+r.Upstream, r.Forward)
	}
	if http {
		section("API", base, r.Ask)
	}
	if http && r.ForwardAuth != "" {
		section("proxies", curlTo(base, r.ForwardAuth)+"  (forward-auth)", r.Proxy)
	}
	if grpc, ok := r.URLs["grpc"]; ok {
		section("gRPC", grpc+"  ("+r.GRPC+")")
	}
	if redis, ok := r.URLs["resp"]; ok {
		section("redis", redis+"  (Redis protocol)", r.Redis)
	}
	if admin, ok := r.URLs["admin"]; ok {
		section("admin", admin+"/  (dashboard, metrics, health, rules)")
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
	r.Limits, r.MoreLimits = s.rules.firstInForce(s.conf.API.Domain)
	if s.shed != nil {
		for _, l := range s.shed.Refs() {
			text := "shed " + l.Rule
			if slices.ContainsFunc(r.Limits, func(have string) bool { return strings.HasPrefix(have, text) }) {
				continue // one of each limiter, of which there are four
			}
			if l.Rule != shed.InFlightRule { // what is in flight has no summary
				text += ": " + limits.Summary(l.Limit)
			}
			r.Limits = append(r.Limits, text)
		}
	}
	s.log.Info("limits in force", "limits", len(r.Limits)+r.MoreLimits, "first", r.Limits)
	if u, err := s.conf.UpstreamURL(); err == nil && u != nil {
		r.Upstream = redact.URL(u.String())
	} else if n := len(s.conf.Routes); n > 0 && s.conf.Forwards() {
		r.Upstream = fmt.Sprintf("%d routes", n)
		if n == 1 {
			r.Upstream = "1 route"
		}
	}
	g := guide{s.conf, s.token, s.rules}
	http := r.URLs["http"]
	r.Forward, r.Proxy, r.Ask, r.Redis = g.howToForward(http), g.howToAskAsProxy(http), g.howToAsk(http), g.howToAskRedis(r.URLs["resp"])
	r.GRPC = grpcInWords(s.conf)
	if ready != nil {
		ready(r)
	}
}

// grpcInWords names what is served over gRPC, and who may use it.
func grpcInWords(c *config.Config) string {
	text := "weir.v1, Envoy's rate limit service"
	if c.ExtAuthz.Enabled {
		text += ", ext_authz"
	}
	switch {
	case !config.GuardsGRPC(c) || trustsLoopback(c):
		return text
	case len(c.Trust) > 0:
		return text + "; for --trust " + strings.Join(c.Trust, ",")
	}
	return text + "; answers nobody: it is for --trust ADDRESS alone"
}

// maxLimitsShown is how many limits are named when a node starts.
const maxLimitsShown = 5

// firstInForce returns the first limits that requests can meet, in words, and how many
// others there are. own is the domain that needs no name.
func (r *ruleSet) firstInForce(own string) (first []string, more int) {
	add := func(text string) {
		if len(first) < maxLimitsShown {
			first = append(first, text)
		} else {
			more++
		}
	}
	for _, text := range r.words.Texts() {
		add(text)
	}
	set := r.currentLimits()
	asked := r.asked(set)
	for _, rule := range set.FileRules() {
		if !rule.Decides() || !asked(rule) {
			continue
		}
		at := rule.Path
		if rule.Domain != own {
			at = rule.Domain + "/" + at
		}
		words := inWords(rule.Limits)
		for _, c := range rule.Tiers {
			words = append(words, "for "+rule.TierBy+" "+c.Value+" "+strings.Join(inWords(c.Limits), ", "))
		}
		if len(rule.Overrides) > 0 {
			words = append(words, fmt.Sprintf("%d overrides", len(rule.Overrides)))
		}
		if len(words) == 0 {
			words = []string{"a deny list"}
		}
		add(at + ": " + strings.Join(words, "; "))
	}
	return first, more
}
