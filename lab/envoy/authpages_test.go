package envoy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The block of the page about ext_authz limits, with the words that it names for routes.
func runExtAuthz(t *testing.T, blocks ...string) {
	filter := parse(t, blocks[0]).(list)[0]
	route := func(prefix string, words object) object {
		return object{"match": object{"prefix": prefix}, "route": object{"cluster": "application"}, "typed_per_filter_config": object{
			"envoy.filters.http.ext_authz": typed("envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", object{"check_settings": object{"context_extensions": words}})}}
	}
	routes := list{route("/five", object{"cost": "5"}), route("/look", object{"cost": "0"}), route("/unknown", object{"dney": "403"}), route("/other", object{"domain": "other"})}
	for _, deny := range denied {
		routes = append(routes, route("/deny"+deny, object{"cost": "1000", "deny": deny}))
	}
	app, weir := serveApplication(t), serve(t, "--limit", "10/hour by ip", "--ext-authz")
	e := startEnvoy(t, setup{filters: list{filter}, routes: append(routes, toApplication(nil, nil))}.bootstrap(t), ports(app.addr, weir))
	want(t, "costs", []int{e.get(t, "/five").code, e.get(t, "/look").code, e.get(t, "/five").code, e.get(t, "/").code}, []int{200, 200, 200, 429})
	// An error of the call is Envoy's 403, unless status_on_error says otherwise.
	want(t, "words that are not known", []int{e.get(t, "/unknown").code, e.get(t, "/other").code}, []int{403, 403})
	for _, deny := range denied {
		agree(t, deny, e.get(t, "/deny"+deny))
	}
}

// denied are statuses of refusals; Envoy knows some of them.
var denied = []string{"400", "403", "404", "418", "420", "429", "451", "499", "500", "503", "599"}

// agree compares the status of a response with what its document says.
func agree(t testing.TB, deny string, r got) {
	t.Helper()
	var p struct{ Status int }
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || p.Status != r.code {
		t.Errorf("deny %s: %d, and the document: %s", deny, r.code, r.body)
	}
}

// Over HTTP the document and the status agree too. Of a 5xx Envoy makes a failure, as the
// page says.
func TestPageForwardAuthStatuses(t *testing.T) {
	processes(t)
	app, weir := serveApplication(t), serve(t, "--limit", "1/hour by ip", "--forward-auth", "/auth", "--trusted-proxies", "127.0.0.1")
	conf := deployed(t, "envoy/ext-authz-http.yaml")
	for _, open := range []bool{false, true} {
		for _, deny := range denied {
			text := strings.Replace(conf, "path_prefix: /auth:deny=429", "path_prefix: /auth:cost=1000&deny="+deny, 1)
			text = strings.Replace(text, "failure_mode_allow: false", fmt.Sprint("failure_mode_allow: ", open), 1)
			r := startEnvoy(t, text, ports(app.addr, weir)).get(t, "/")
			switch {
			case deny < "500":
				if agree(t, deny, r); fmt.Sprint(r.code) != deny {
					t.Errorf("deny=%s: %d", deny, r.code)
				}
			case !open && (r.code != 503 || r.body != ""), open && r.code != 200:
				t.Errorf("deny=%s, open %v: %+v", deny, open, r)
			}
		}
	}
}

// The configuration of the page about forward-auth, behind Envoy.
func runForwardAuthRoutes(t *testing.T, blocks ...string) {
	rules := writeFile(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: account, limit: 2/day}\n  - {key: remote_address, limit: 5/day}\n")
	file := writeFile(t, "weir.yaml", strings.Replace(blocks[0], "rules: rules.yaml", "rules: "+rules, 1))
	app, weir := serveApplication(t), serve(t, "--config", file)
	e := startEnvoy(t, deployed(t, "envoy/ext-authz-http.yaml"), ports(app.addr, weir))
	post := func(path string) int { return e.do(t, h2, "POST", path, "x").code }
	want(t, "logins", []int{post("/login/ann"), post("/login/%61nn"), post("/login/ann"), post("/login/bob")}, []int{200, 200, 429, 200})
	want(t, "health", e.codes(t, 9, "/health"), times(9, 200))
	want(t, "the address", []int{post("/login/c"), post("/login/d"), post("/login/e")}, []int{200, 200, 429})
}

// The rules of the page about compatible mode, behind Envoy: the fourth request of a day
// and user is refused.
func runUserRules(t *testing.T, blocks ...string) {
	app := serveApplication(t)
	addr := startRateLimit(t, []string{command, "ratelimit"}, folderOf(writeFile(t, "config/shop.yaml", blocks[0]))).addr
	e := startEnvoy(t, setup{filters: list{rateLimitFilter("shop", object{"rate_limits": list{actions(byHeader("x-user", "user"))}})}}.bootstrap(t),
		map[int]string{portApplication: app.addr, portWeirGRPC: addr})
	ann := withinOne(24*time.Hour, func(n int) []int { return e.codes(t, 4, "/", "X-User", fmt.Sprint("ann", n)) })
	want(t, "ann", ann, times(3, 200, 429))
	want(t, "bob", e.codes(t, 1, "/", "X-User", "bob"), []int{200})
}

// withinOne asks again until all of it lay in one window of a unit, each time as another
// client, and returns the last statuses.
func withinOne(unit time.Duration, ask func(n int) []int) []int {
	for n := 0; ; n++ {
		began := time.Now().Truncate(unit)
		if codes := ask(n); time.Now().Truncate(unit).Equal(began) {
			return codes
		}
	}
}

// The rules that stay when envoyproxy/ratelimit goes: both of Weir's services read them.
func runAddressRules(t *testing.T, blocks ...string) {
	app := serveApplication(t)
	file := writeFile(t, "config/api.yaml", blocks[0])
	compatible := startRateLimit(t, []string{command, "ratelimit"}, folderOf(file)).addr
	conf := setup{filters: list{rateLimitFilter("api", object{"rate_limits": list{actions(object{"remote_address": object{}})}})},
		manager: object{"use_remote_address": false}}.bootstrap(t) // so that X-Forwarded-For is believed
	for name, addr := range map[string]string{"weir ratelimit": compatible, "weir serve": serve(t, "--rules", file).Listening("grpc")} {
		e := startEnvoy(t, conf, map[int]string{portApplication: app.addr, portWeirGRPC: addr})
		asked := withinOne(time.Hour, func(n int) []int { return e.codes(t, 11, "/", "X-Forwarded-For", fmt.Sprint("203.0.113.", n)) })
		want(t, name, asked, times(10, 200, 429))
	}
}
