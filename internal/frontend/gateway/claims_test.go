package gateway

import (
	"flag"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

//go:generate go test . -run ^TestReference$ -update

var update = flag.Bool("update", false, "rewrite docs/reference/generated/forwarding.md")

// TestReference: docs/reference/generated/forwarding.md lists the fields that are dropped.
// TestFamilyClaims sends each of them.
func TestReference(t *testing.T) {
	const path = "../../../docs/reference/generated/forwarding.md"
	list := func(names []string, more ...string) string {
		for i, n := range names {
			names[i] = http.CanonicalHeaderKey(n)
		}
		return "`" + strings.Join(append(names, more...), "`, `") + "`"
	}
	var prefixes []string
	for _, p := range verifiedPrefixes {
		prefixes = append(prefixes, http.CanonicalHeaderKey(p)+"*")
	}
	page := "# Header fields that the gateway does not forward\n\nMade by `make docs` of the lists in `internal/frontend/gateway`. [The gateway](../gateway.md#who-it-is-forwarded-for) says why. " +
		"It also names the words that make others. A field is dropped in any spelling: `X_Real_IP` is `X-Real-IP`.\n\n| dropped | |\n|---|---|\n" +
		"| from everybody, except the one that `proxies.header`, `identity.user`, `identity.tier` or `method_override` names | " +
		list(slices.Sorted(maps.Keys(claims)), "X-Forwarded-*") + " |\n" +
		"| from all but trusted proxies | " + list(slices.Sorted(maps.Keys(verified)), prefixes...) + " |\n"
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != page {
		t.Errorf("%s is stale (%v): make docs", path, err)
	}
}

// TestWordsOfClaims: names that nobody listed are known by their words, and ordinary ones
// are not taken for them.
func TestWordsOfClaims(t *testing.T) {
	g := &Gateway{identity: identitytest.New(t, identity.Options{})}
	sent := func(names string) http.Header {
		h := http.Header{}
		for name := range strings.FieldsSeq(names) {
			h[name] = []string{"v"}
		}
		return h
	}
	fromNobody := sent(`X-Real-Ip Real-Ip X_Real_Ip Source-Ip X-Source-Ip Cdn-Real-Ip X-Client-Real-Ip X-Trusted-Ip X-Ip Ip X-Ipv4 X-Remote-Address X-Peer-Addr X-Proxy-Ip X-Connecting-Ip Client-Ip X-Userip
		X-Originating-Address X-True-Client-Ip X-External-Address X-Forwarded-Client-Cert X-Original-Forwarded-For X-Forwarded Forwarded Forwarded-For X-Forwarded-Anything X-Real-Port
		X-Http-Host-Override X-Host-Override X-Method-Override X-Http-Method-Override X-Envoy-Original-Path X-Envoy-Original-Host X-Envoy-Original-Method X-Rewrite-Uri X-Rewrite-Path
		X-Original-Path X-Original-Scheme X-Override-Url Proxy`)
	fromProxies := sent(`X-Envoy-Attempt-Count X-Host X-Path X-Method X-Request-Uri X-Backend-Host X-Original-Uri X-Original-Method X-Original-Host X-Consumer-Username X-Consumer-Id X-Consumer-Custom-Id X-Credential-Identifier X-Anonymous-Consumer
		X-Endpoint-Api-Userinfo X-Apigateway-Api-Userinfo Oidc-Claim-Sub Oidc-Claim-Email Sm-User Sm-Universalid Iv-User Iv-Groups X-Shib-Mail Shib-Session-Id Eppn X-Ssl-Cert Ssl-Client-S-Dn X-Ssl-Client-Verify X-Real-User
		X-Gateway-User X-Gateway-Userid Remote-User X-Remote-Role X-Auth-Username X-Auth-Email X-Authenticated-Email X-Verified-User X-Client-Certificate X-Sso-User X-Proxy-User Tailscale-User-Login X-Ms-Client-Principal-Id`)
	fromAll := sent(`Accept Accept-Language Authorization Cookie Content-Type Content-Length User-Agent Origin Referer Range If-None-Match Upgrade-Insecure-Requests Access-Control-Request-Method
		Access-Control-Request-Headers Sec-Fetch-User Sec-Fetch-Dest Sec-Websocket-Key Sec-Websocket-Protocol X-Request-Id X-Correlation-Id X-Csrf-Token X-Xsrf-Token X-Requested-With X-Api-Key X-Api-Version
		X-Client-Id X-Client-Version X-Client-Data X-Client-Info X-Goog-Api-Client X-Amz-Date X-Amz-Content-Sha256 X-Amz-User-Agent X-User-Agent X-User-Id X-Account-Id X-Tenant-Id X-Session-Id X-Device-Id X-App-Version X-Trace-Id
		Traceparent Tracestate B3 X-B3-Traceid Baggage Idempotency-Key Hx-Request Hx-Current-Url Turbo-Frame X-Inertia X-Pjax X-Timezone X-Hub-Signature-256 X-Github-Event Stripe-Signature Grpc-Timeout
		X-Grpc-Web Destination Depth Overwrite Lock-Token Upload-Offset Tus-Resumable X-File-Path X-Original-Filename X-Callback-Url X-Payment-Method X-Shipping-Address X-Auth-Token X-Access-Token X-Zip X-Iv Dnt Priority Prefer`)
	for _, c := range []struct {
		h               http.Header
		stranger, proxy bool
	}{{fromNobody, false, false}, {fromProxies, false, true}, {fromAll, true, true}} {
		for _, trusted := range []bool{false, true} {
			h, want := maps.Clone(c.h), c.stranger
			if trusted {
				want = c.proxy
			}
			g.dropClaims(h, trusted)
			for name := range c.h {
				if _, passes := h[name]; passes != want {
					t.Errorf("%s, from a trusted proxy: %v: passes: %v", name, trusted, passes)
				}
			}
		}
	}
	for list, want := range map[string]string{"*": "X-Csrf-Token X-Shop-Id", "* X-Real-User": "X-Csrf-Token X-Real-User X-Shop-Id", "x-shop-*": "X-Shop-Id", "X_Csrf_Token X-For*": "X-Csrf-Token"} {
		g.opt.ClientFields = strings.Fields(list)
		h := sent("X-Csrf-Token X-Real-User X-Shop-Id X-Forwarded-For X-Consumer-Id")
		g.dropClaims(h, false)
		if got := strings.Join(slices.Sorted(maps.Keys(h)), " "); got != want {
			t.Errorf("%s: %s passes, not %s", list, got, want)
		}
	}
}

// TestTrailersThatMayNotTrail: by RFC 9110 §6.5.1.
func TestTrailersThatMayNotTrail(t *testing.T) {
	for name := range strings.FieldsSeq(`Host Connection Upgrade Te Keep-Alive Expect Content-Encoding Content-Type Content-Length Content-Range Content-Location Set-Cookie Set-Cookie2 Cookie Proxy-Authorization Authorization
		Www-Authenticate Proxy-Authenticate Proxy-Connection Transfer-Encoding Trailer Cache-Control Max-Forwards Pragma Range If-Match If-None-Match If-Modified-Since If-Range Age Expires Date Location Retry-After Vary Warning
		Accept Accept-Encoding Access-Control-Allow-Origin Sec-Websocket-Key Strict-Transport-Security Ratelimit X-Ratelimit-Remaining content_type Http2-Settings`) {
		if mayTrail(name) {
			t.Errorf("%s may trail", name)
		}
	}
	for name := range strings.FieldsSeq("Grpc-Status Grpc-Message Grpc-Status-Details-Bin X-Cost X-Checksum X-Amz-Checksum-Crc32 Digest Content-Digest Repr-Digest Content-Md5 Server-Timing Etag Signature Signature-Input My-Trailer Request-Cost") {
		if !mayTrail(name) {
			t.Errorf("%s may not trail", name)
		}
	}
}
