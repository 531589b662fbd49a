package envoy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestDifferentialXDS gives both programs the same random rules over xDS, and wants
// the same refusals, rules and answers.
func TestDifferentialXDS(t *testing.T) {
	program := compared(t)
	n := &nodes{}
	n.t = t
	var servers [2]*manager
	n.start(t, program, func(i int) []string {
		n.redis[i] = []*servertest.RedisServer{servertest.Redis(t)}
		servers[i] = manage(t)
		return []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + servers[i].addr, "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + n.redis[i][0].Addr, "USE_STATSD=false", "DISABLE_STATS=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true"}
	})
	cases, seed := setting(t, "WEIR_CASES", 20), setting(t, "WEIR_SEED", 1)
	for i := range cases {
		g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed+i), 17)), wide: true, brief: true, atMost: 6}
		files := g.files(fmt.Sprint("x", seed+i))
		resources := g.resources(t, files)
		if resources == nil {
			continue
		}
		theirs, mine := servers[0].give(t, resources), servers[1].give(t, resources)
		if theirs != mine {
			t.Fatalf("seed %d: refused\nreference: %s\nhere:      %s\n%s", seed+i, theirs, mine, show(files))
		}
		if err := n.ours.LoadXDS(resources, false); (err == nil) != (mine == "") {
			t.Fatalf("seed %d: the program says %q, the service %v", seed+i, mine, err)
		}
		if mine != "" {
			continue
		}
		n.shownSoon(files)
		for j := range 30 {
			if !n.ask(fmt.Sprintf("seed %d request %d", seed+i, j), g, files) {
				n.crossed = append(n.crossed, "")
				break
			}
		}
		n.flush()
	}
	t.Logf("%d requests; %d cases were cut short by a new second; the reference lost metadata %d times", n.asked, len(n.crossed), n.lost)
}

// shownSoon waits until both show the same rules: the reference accepts first.
func (n *nodes) shownSoon(files []File) {
	n.t.Helper()
	var shown [2]string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		for i, r := range []*reference{n.ref, n.node} {
			_, text := fetch(n.t, "GET", r.debug+"/rlconfig", "")
			lines := strings.SplitAfter(text, "\n")
			slices.Sort(lines)
			shown[i] = strings.Join(lines, "")
		}
		if shown[0] == shown[1] {
			return
		}
	}
	n.t.Fatalf("rules\nreference:\n%s\nhere:\n%s\n%s", shown[0], shown[1], show(files))
}

// resources makes resources of what files say, with flaws of their own. It is nil
// where the files say nothing that can be sent.
func (g *generator) resources(t *testing.T, files []File) (all []*rlsconfv3.RateLimitConfig) {
	for i, f := range files {
		spec, err := parseFile(f)
		if err != nil {
			return nil
		}
		r := &rlsconfv3.RateLimitConfig{Name: pick(g, "r", "", "é", fmt.Sprint("r", i)), Domain: spec.Domain, Descriptors: g.descriptors(t, spec.Descriptors)}
		if g.chance(2) {
			r.Domain = ""
		}
		all = append(all, r)
	}
	return all
}

func (g *generator) descriptors(t *testing.T, specs []descriptorSpec) (all []*rlsconfv3.RateLimitDescriptor) {
	for i := range specs {
		s := &specs[i]
		d := &rlsconfv3.RateLimitDescriptor{Key: s.Key, Value: s.Value, ShadowMode: s.ShadowMode, DetailedMetric: s.DetailedMetric, Descriptors: g.descriptors(t, s.Descriptors)}
		if l := s.RateLimit; l != nil {
			unit := rlsconfv3.RateLimitUnit_value[strings.ToUpper(l.Unit)]
			if g.IntN(300) == 0 {
				unit = pick[int32](g, 0, 8, -1, 100)
			}
			d.RateLimit = &rlsconfv3.RateLimitPolicy{Unit: rlsconfv3.RateLimitUnit(unit), RequestsPerUnit: l.RequestsPerUnit, Unlimited: l.Unlimited, Name: l.Name}
			for _, r := range l.Replaces {
				d.RateLimit.Replaces = append(d.RateLimit.Replaces, &rlsconfv3.RateLimitReplace{Name: r.Name})
			}
		}
		d.QuotaMode = s.QuotaMode
		if m, err := metadata(s.Metadata); err == nil {
			d.Metadata = m
		}
		if g.IntN(500) == 0 {
			d.Key = ""
		}
		all = append(all, d)
	}
	return all
}

// manager is a management server of xDS that sends what it is given.
type manager struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	addr string
	next chan *discoveryv3.DiscoveryResponse
	said chan *discoveryv3.DiscoveryRequest
	sent int
}

func manage(t *testing.T) *manager {
	ln := servertest.Listen(t)
	m := &manager{addr: ln.Addr().String(), next: make(chan *discoveryv3.DiscoveryResponse), said: make(chan *discoveryv3.DiscoveryRequest, 100)}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, m)
	go s.Serve(ln)
	t.Cleanup(s.Stop)
	return m
}

// StreamAggregatedResources implements the management server.
func (m *manager) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				return
			}
			m.said <- req
		}
	}()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case resp := <-m.next:
			if err := stream.Send(resp); err != nil {
				return err
			}
		}
	}
}

// give sends resources and returns why they are refused.
func (m *manager) give(t *testing.T, resources []*rlsconfv3.RateLimitConfig) string {
	t.Helper()
	m.sent++
	resp := &discoveryv3.DiscoveryResponse{TypeUrl: "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig", VersionInfo: fmt.Sprint(m.sent), Nonce: fmt.Sprint("n", m.sent)}
	for _, r := range resources {
		packed, err := anypb.New(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Resources = append(resp.Resources, packed)
	}
	timeout := time.After(time.Minute)
	select {
	case m.next <- resp:
	case <-timeout:
		t.Fatal("nobody takes the resources")
	}
	for {
		select {
		case req := <-m.said:
			if req.ResponseNonce == resp.Nonce {
				return req.GetErrorDetail().GetMessage()
			}
		case <-timeout:
			t.Fatal("no word on the resources")
		}
	}
}
