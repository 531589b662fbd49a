package node

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
	"github.com/weirlimit/weir/shed"
)

// bansNode is a node at which clients are banned.
type bansNode struct {
	s                *Server
	ready            Ready
	conn             *grpc.ClientConn
	addressKey, user string // the keys by which routes send the address and the user
}

// bansNodes returns nodes whose routes name what they send in each way that there is.
func bansNodes(t *testing.T) map[string]*bansNode {
	descriptor := func(es ...identity.EntryFrom) identity.Descriptor { return identity.Descriptor{Entries: es} }
	nodes := map[string]*bansNode{}
	for name, c := range map[string]struct {
		address, user string
		routes        []config.Route
		v4, v6        int64
	}{
		"without routes":        {"remote_address", "user", nil, 32, 64},
		"addresses by networks": {"remote_address", "user", nil, 24, 56},
		"short entries":         {"remote_address", "user", []config.Route{{Path: "/*", Descriptors: []identity.Descriptor{descriptor(identity.EntryFrom{From: "remote_address"}), descriptor(identity.EntryFrom{From: "user"})}}}, 32, 128},
		"keys of their own": {"ip", "who", []config.Route{{Path: "/*", Descriptors: []identity.Descriptor{
			descriptor(identity.EntryFrom{Key: "ip", From: "remote_address"}), descriptor(identity.EntryFrom{Key: "who", From: "user"}),
			descriptor(identity.EntryFrom{Key: "kind", From: "value:page"})}}}, 32, 64},
		"a route takes all":  {"remote_address", "user", []config.Route{{Path: "/*", Descriptors: []identity.Descriptor{descriptor(identity.EntryFrom{From: "user"})}}}, 32, 64},
		"a limit of a route": {"remote_address", "user", []config.Route{{Path: "/*", Limit: []string{"1000000/hour by user"}}}, 32, 64},
	} {
		conf := config.Defaults()
		conf.Rules = servertest.File(t, "rules.yaml", fmt.Sprintf("domain: api\ndescriptors:\n  - {key: %s, limit: 1000000/hour}\n  - {key: %s, limit: 1000000/hour}\n  - {key: kind, limit: 1000000/hour}\n", c.address, c.user))
		conf.Upstream, conf.ForwardAuth.Prefix, conf.ExtAuthz.Enabled, conf.Routes = markedUpstream(t), "/auth", true, c.routes
		conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen, conf.RESP.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		conf.Trust, conf.Identity.Proxies.Trusted, conf.Identity.User = []string{"127.0.0.1"}, []string{"127.0.0.1"}, []string{"header:X-User"}
		conf.Identity.IPv4Prefix, conf.Identity.IPv6Prefix = c.v4, c.v6
		n := &bansNode{addressKey: c.address, user: c.user}
		n.s, n.ready = started(t, conf, slog.New(slog.DiscardHandler))
		conn, err := grpc.NewClient(strings.TrimPrefix(n.ready.URLs["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		n.conn, nodes[name] = conn, n
	}
	return nodes
}

// send returns what is answered to a request, and its status.
func send(t *testing.T, method, url, body string, fields map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// refusals asks every front end for a client with an address and a user, and returns
// which refuse: those that make descriptors themselves, and those that are sent the
// entry of a key as it is counted.
func (n *bansNode) refusals(t *testing.T, address, user, key string) (making, sent map[string]bool) {
	t.Helper()
	fields := map[string]string{"X-Forwarded-For": address, "X-User": user}
	gateway, _ := send(t, "GET", n.ready.URLs["http"]+"/a", "", fields)
	auth, _ := send(t, "GET", n.ready.URLs["http"]+"/auth/a", "", fields)
	authz, err := authv3.NewAuthorizationClient(n.conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source:  &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1"}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "h", Path: "/a", Headers: map[string]string{"x-forwarded-for": address, "x-user": user}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	making = map[string]bool{"gateway": gateway == 429, "forward-auth": auth == 429, "ext_authz": authz.GetDeniedResponse() != nil}
	value := user
	if key == n.addressKey {
		if value, err = n.s.entryForm(key, address); err != nil {
			t.Fatal(err)
		}
	}
	rls, err := rlspb.NewRateLimitServiceClient(n.conn).ShouldRateLimit(t.Context(), &rlspb.RateLimitRequest{Domain: "api",
		Descriptors: []*ratelimitpb.RateLimitDescriptor{{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: key, Value: value}}}}})
	if err != nil {
		t.Fatal(err)
	}
	v1, err := weirpb.NewLimitServiceClient(n.conn).Check(t.Context(), &weirpb.CheckRequest{Domain: "api",
		Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: key, Value: value}}}}})
	if err != nil {
		t.Fatal(err)
	}
	_, api := send(t, "POST", n.ready.URLs["http"]+"/v1/check", fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":%q}]}]}`, key, value), nil)
	return making, map[string]bool{"RLS": rls.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT, "weir.v1": !v1.Decision.Allowed,
		"HTTP API": strings.HasPrefix(api, `{"allowed":false`), "RESP": strings.Contains(redisAnswers(t, n.ready, "WEIR.CHECK", "api", key, value), "allowed\r\n:0")}
}

// ban bans for some seconds, zero to lift a ban, and returns whether the node says that this
// reaches no front end.
func (n *bansNode) ban(t *testing.T, seconds int, key, value string, isWhole bool) (isUnreached bool, text string) {
	t.Helper()
	status, text := send(t, "POST", n.ready.URLs["admin"]+"/v1/admin/ban",
		fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":%q}]}],"seconds":%d,"whole_domain":%t}`, key, value, seconds, isWhole), map[string]string{"Content-Type": "application/json"})
	var says struct{ Warnings []string }
	if err := json.Unmarshal([]byte(text), &says); err != nil || status != 200 {
		t.Fatalf("ban of %s=%s: %d %s, %v", key, value, status, text, err)
	}
	return len(says.Warnings) > 0, text
}

// drawnBan is a client or a range that somebody bans.
type drawnBan struct {
	value           string
	inside, outside []netip.Addr
}

// drawBan draws an address or a range in a way that people write it, and addresses that
// are in it, and that are far from it.
func drawBan(rnd *rand.Rand) drawnBan {
	a, mapped := netip.AddrFrom4([4]byte{203, 0, byte(rnd.IntN(256)), byte(rnd.IntN(256))}), false
	far := netip.AddrFrom4([4]byte{192, 0, 2, byte(rnd.IntN(256))})
	if rnd.IntN(2) == 0 {
		b := [16]byte{0x20, 0x01, 0x0d, 0xb8}
		for i := 4; i < 16; i++ {
			b[i] = byte(rnd.IntN(3))
		}
		a, far = netip.AddrFrom16(b), netip.MustParseAddr("3fff::1")
	} else if mapped = rnd.IntN(4) == 0; mapped {
		a = netip.AddrFrom16(a.As16())
	}
	value := a.String()
	if a.Is6() && !mapped && rnd.IntN(2) == 0 {
		value = strings.ToUpper(a.StringExpanded())
	}
	d := drawnBan{value, []netip.Addr{a.Unmap()}, []netip.Addr{far}}
	if rnd.IntN(2) > 0 && !mapped { // a range, not always written by its first address
		bits := a.BitLen() - 4*rnd.IntN(a.BitLen()/4-5)
		p := netip.PrefixFrom(a, bits)
		if d.value = fmt.Sprintf("%s/%d", a, bits); rnd.IntN(2) == 0 {
			d.value = p.Masked().String()
		}
		d.inside = append(d.inside, p.Masked().Addr())
	}
	return d
}

// TestFamilyBansHoldAtEachFrontEnd: who is said to be banned, by an address or a range in any
// spelling, or by the user, under one limit or over the domain, is refused by every front end,
// and nobody far from it; of what is said to reach no front end, none that makes descriptors
// refuses anybody. Once it is taken back, everybody passes.
func TestFamilyBansHoldAtEachFrontEnd(t *testing.T) {
	rnd, rounds := rand.New(rand.NewPCG(seeds.Of(t), 31)), 10
	nodes := bansNodes(t)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n, reached := nodes[name], 0
		for range rounds {
			key, isWhole, d := n.addressKey, rnd.IntN(2) == 0, drawBan(rnd)
			user, other := "ann", "bob"
			if rnd.IntN(4) == 0 {
				key, d.value = n.user, user
				d.outside = d.inside
			}
			isUnreached, text := n.ban(t, 600, key, d.value, isWhole)
			what := fmt.Sprintf("%s: ban of %s=%s, over the domain: %t", name, key, d.value, isWhole)
			check := func(who string, want bool, got map[string]bool) {
				t.Helper()
				for frontEnd, refuses := range got {
					if refuses != want {
						t.Errorf("%s: %s: %s refuses: %t, of what is said: %s", what, frontEnd, who, refuses, text)
					}
				}
			}
			for _, a := range d.inside {
				making, sent := n.refusals(t, a.String(), user, key)
				check(a.String(), !isUnreached, making)
				if !isUnreached && (name != "a limit of a route" || isWhole || key == n.addressKey) {
					check(a.String(), true, sent)
				}
			}
			for _, a := range d.outside {
				making, sent := n.refusals(t, a.String(), other, key)
				check(a.String(), false, making)
				check(a.String(), false, sent)
			}
			if !isUnreached {
				reached++
			}
			n.ban(t, 0, key, d.value, isWhole)
			making, sent := n.refusals(t, d.inside[0].String(), user, key)
			check("who is not banned any more", false, making)
			check("who is not banned any more", false, sent)
		}
		if reached == 0 && name != "a route takes all" {
			t.Errorf("%s: no ban reaches a front end", name)
		}
	}
	n := nodes["keys of their own"]
	for value, want := range map[string]bool{"page": false, "image": true} {
		if got, text := n.ban(t, 600, "kind", value, true); got != want {
			t.Errorf("ban of kind=%s, which routes write as page: reaches no front end: %t: %s", value, got, text)
		}
	}
}

// TestFamilyExplainedIsWhatIsCounted: an explanation of a client in any spelling has the
// counters that its requests are charged to.
func TestFamilyExplainedIsWhatIsCounted(t *testing.T) {
	n := bansNodes(t)["addresses by networks"]
	for _, address := range []string{"203.0.113.7", "2001:DB8:0:1::9", "::ffff:192.0.2.9"} {
		if status, text := send(t, "GET", n.ready.URLs["http"]+"/a", "", map[string]string{"X-Forwarded-For": address, "X-User": "ann"}); status != 200 {
			t.Fatal(status, text)
		}
		status, text := send(t, "POST", n.ready.URLs["admin"]+"/v1/explain", fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"remote_address","value":%q}]}]}`, address), map[string]string{"Content-Type": "application/json"})
		if status != 200 || !strings.Contains(text, `"remaining":999999`) {
			t.Errorf("%s was counted, and its explanation is %d %s", address, status, text)
		}
	}
}

// TestTiersAreNamed: an override of a client whose limits are by tier alone, and of which no
// tier is named, is refused with the tiers that there are. A route that takes all requests
// leaves none of which the log could warn.
func TestTiersAreNamed(t *testing.T) {
	c := config.Defaults()
	c.Rules = servertest.File(t, "rules.yaml", "domain: api\ndescriptors:\n  - key: user\n    tiers: {by: tier, limits: {free: 10/minute, pro: 100/minute}}\n")
	c.Upstream, c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen = markedUpstream(t), "127.0.0.1:0", "127.0.0.1:0", ""
	c.Identity.Proxies.Trusted, c.Identity.User, c.Identity.Tier = []string{"127.0.0.1"}, []string{"header:X-User"}, []string{"header:X-Tier"}
	c.Routes = []config.Route{{Path: "/*", Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "user"}, {From: "tier"}}}}}}
	log := new(servertest.Log)
	_, ready := started(t, c, slog.New(slog.NewTextHandler(log, nil)))
	if strings.Contains(log.String(), "requests without a route") {
		t.Error(log)
	}
	for entries, want := range map[string]string{
		`{"key":"user","value":"ann"}`:                                 "user has limits by tier only: add tier=free or tier=pro",
		`{"key":"user","value":"ann"},{"key":"tier","value":"free"}`:   "",
		`{"key":"user","value":"ann"},{"key":"tier","value":"nobody"}`: "user has limits by tier only: add tier=free or tier=pro",
	} {
		status, text := send(t, "POST", ready.URLs["admin"]+"/v1/admin/override", `{"domain":"api","descriptors":[{"entries":[`+entries+`]}],"rate":"5000/minute"}`, map[string]string{"Content-Type": "application/json"})
		if (status == 200) != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", entries, status, text)
		}
	}
}

// TestShedLimitsAreInForce: where load shedding is all that limits, its limiters are those
// in force, and no request is said not to be limited.
func TestShedLimitsAreInForce(t *testing.T) {
	c := config.Defaults()
	c.Upstream, c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen = markedUpstream(t), "127.0.0.1:0", "127.0.0.1:0", ""
	c.Shed = &shed.Options{User: []string{"remote_address"}, UserRate: shed.RateOptions{Limit: shed.Rate{Count: 100, Period: time.Second}}}
	log := new(servertest.Log)
	_, ready := started(t, c, slog.New(slog.NewTextHandler(log, nil)))
	if status, _ := send(t, "GET", ready.URLs["http"]+"/", "", nil); status != 200 {
		t.Fatal(status)
	}
	if got := log.String(); !strings.Contains(got, "shed user_rate: 100/second") || strings.Contains(got, "not limited") {
		t.Error(got)
	}
}
