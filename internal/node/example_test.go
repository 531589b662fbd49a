package node

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyBannerMeetsTheRules: the command that a node prints when it starts meets
// the first rule that can refuse something: typed twice, it is refused the second time.
func TestFamilyBannerMeetsTheRules(t *testing.T) {
	servertest.Binary(t, "curl")
	for name, c := range map[string]struct {
		rules, domain string
		limits        []string
		has           string // of the answer to the second, `false` where it is empty
	}{
		"words by ip":        {limits: []string{"1/year by ip using fixed_window"}},
		"words by client_id": {limits: []string{"1/year by client_id using fixed_window"}},
		"words by header":    {limits: []string{"1/year by header:X-Key and path using fixed_window"}},
		"words by all":       {limits: []string{"1/year by all using fixed_window"}},
		"client_id":          {rules: "- {key: client_id, limit: 1/year, algorithm: fixed_window}"},
		"another domain":     {rules: "- {key: client_id, limit: 1/year, algorithm: fixed_window}", domain: "shop"},
		"api_key":            {rules: "- {key: api_key, limit: 1/year, algorithm: fixed_window}"},
		"value":              {rules: "- {key: path, value: /login, limit: 1/year, algorithm: fixed_window}"},
		"pattern":            {rules: "- {key: path, value: \"/a/*\", limit: 1/year, algorithm: fixed_window, share_threshold: true}"},
		"quotes":             {rules: "- {key: \"it's\", value: \"a 'b' \\\"c\\\" $HOME `x` \\\\\", limit: 1/year, algorithm: fixed_window}"},
		"nested":             {rules: "- {key: path, value: /login, descriptors: [{key: remote_address, limit: 1/year, algorithm: fixed_window}]}"},
		"the same key twice": {rules: "- {key: a, value: b, descriptors: [{key: a, limit: 1/year, algorithm: fixed_window}]}"},
		"nothing, then one":  {rules: "- {key: a, limit: {unlimited: true}}\n- {key: b, limit: 1/year, algorithm: fixed_window}"},
		"shadow, then one":   {rules: "- {key: a, limit: 1/year, algorithm: fixed_window, mode: shadow}\n- {key: b, limit: 1/year, algorithm: fixed_window}"},
		"tiers":              {rules: "- {key: user, tiers: {by: plan, limits: {free: {limit: 1/year, algorithm: fixed_window}}}}"},
		"overrides":          {rules: "- {key: user, overrides: {bob: {limit: 1/year, algorithm: fixed_window}}}"},
		"concurrency":        {rules: "- {key: user, limit: 1, algorithm: concurrency, ttl: 1h}", has: `"limit":{`},
		"nothing":            {rules: "- {key: a, limit: {unlimited: true}}", has: "(no limit is in force)"},
		"no rule":            {has: "(no limit is in force)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := config.Defaults()
			conf.Limits, conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = c.limits, "127.0.0.1:0", "", ""
			if c.limits == nil && c.rules == "" {
				conf.RESP.Listen = "127.0.0.1:0"
			}
			if c.rules != "" {
				if c.domain == "" {
					c.domain = "api"
				}
				conf.Rules = filepath.Join(t.TempDir(), "rules.yaml")
				if err := os.WriteFile(conf.Rules, []byte("domain: "+c.domain+"\ndescriptors:\n"+c.rules+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, r := started(t, conf, slog.New(slog.NewTextHandler(io.Discard, nil)))
			_, text, _ := strings.Cut(r.String(), "API ")
			_, line, _ := strings.Cut(text, "\n")
			line, _, _ = strings.Cut(strings.TrimSpace(line), "\n")
			var out []byte
			for range 2 {
				if strings.HasPrefix(line, "(") {
					out = []byte(line)
					break
				}
				var err error
				if out, err = exec.Command("sh", "-c", strings.Replace(line, "curl ", "curl -s ", 1)).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
			}
			want := c.has
			if want == "" {
				want = `"allowed":false`
			}
			if !strings.Contains(string(out), want) {
				t.Errorf("%s\nanswered %s\nwant %s", line, out, want)
			}
		})
	}
}

// TestBannerBesideAnUpstream: it says how to ask the API there, and does not print
// what would be refused.
func TestBannerBesideAnUpstream(t *testing.T) {
	servertest.Binary(t, "curl")
	upstream := markedUpstream(t)
	const token = "0123456789abcdef"
	for _, c := range []struct {
		trust []string
		token config.Secret
		want  string
	}{
		{nil, "", "(answers nobody: start with --trust 127.0.0.1 to ask from this machine)"},
		{[]string{"192.0.2.0/24"}, "", "(answers --trust 192.0.2.0/24)"},
		{nil, token, `{"allowed":true}`},
		{[]string{"127.0.0.1"}, "", `{"allowed":true}`},
	} {
		conf := config.Defaults()
		conf.Limits, conf.Upstream, conf.Trust, conf.Admin.Token = []string{"10/year by ip"}, upstream, c.trust, c.token
		conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = "127.0.0.1:0", "", "127.0.0.1:0"
		_, r := started(t, conf, slog.New(slog.DiscardHandler))
		got := r.Ask
		if strings.HasPrefix(got, "curl ") {
			cmd := exec.Command("sh", "-c", strings.Replace(got, "curl ", "curl -s ", 1))
			cmd.Env = append(os.Environ(), "WEIR_ADMIN_TOKEN="+token)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", got, err, out)
			}
			got = string(out)
		}
		if got != c.want {
			t.Errorf("--trust %q: %s gives %q, want %q", c.trust, r.Ask, got, c.want)
		}
		if grpc := strings.Contains(r.String(), "for --trust"); grpc != !strings.Contains(strings.Join(c.trust, ""), "127") {
			t.Errorf("--trust %q:\n%s", c.trust, r)
		}
	}
}

// TestBannerForwards: the request that the gateway's line sends meets the first rule.
func TestBannerForwards(t *testing.T) {
	servertest.Binary(t, "curl")
	upstream := markedUpstream(t)
	for _, rule := range []string{
		"1/year by header:X-Key and cookie:s using fixed_window", "1/year by ip and query:q using fixed_window", "1/year by host using fixed_window",
		"- {key: \"header:X-Key\", limit: 1/year, algorithm: fixed_window}",
		"- {key: path, value: /login, limit: 1/year, algorithm: fixed_window}",
		"- {key: method, value: POST, descriptors: [{key: path, value: /a%20b, limit: 1/year, algorithm: fixed_window}]}",
		"- {key: host, value: shop.example, limit: 1/year, algorithm: fixed_window}",
		"- {key: remote_address, limit: 1/year, algorithm: fixed_window}",
	} {
		conf := config.Defaults()
		conf.Upstream, conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = upstream, "127.0.0.1:0", "", ""
		if !strings.HasPrefix(rule, "-") {
			conf.Limits = []string{rule}
		} else if conf.Rules = filepath.Join(t.TempDir(), "rules.yaml"); os.WriteFile(conf.Rules, []byte("domain: api\ndescriptors:\n"+rule+"\n"), 0o600) != nil {
			t.Fatal("no rules file")
		}
		_, r := started(t, conf, slog.New(slog.DiscardHandler))
		for i, want := range []string{"200", "429"} {
			out, err := exec.Command("sh", "-c", strings.Replace(r.Forward, "curl -i", `curl -s -o /dev/null -w '%{http_code}'`, 1)).CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%s: %s, request %d: %s %v, want %s", rule, r.Forward, i+1, out, err, want)
			}
		}
	}
}

// answerOf runs a command of the banner and returns what it prints.
func answerOf(t *testing.T, command string, env ...string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestBannerAsksOverTheRedisProtocol: the command meets the first limit, and is
// CL.THROTTLE where there is none.
func TestBannerAsksOverTheRedisProtocol(t *testing.T) {
	servertest.Binary(t, "redis-cli")
	for name, c := range map[string]struct {
		limits         []string
		rule, password string
		user           string
		second         string // of the answer to the second
	}{
		"none":     {second: "14"},
		"words":    {limits: []string{"1/year by ip using fixed_window"}, second: "allowed\n0\n"},
		"rules":    {rule: "- {key: \"it's\", value: \"a b\", limit: 1/year, algorithm: fixed_window}", second: "allowed\n0\n"},
		"lease":    {rule: "- {key: user, limit: 1, algorithm: concurrency, ttl: 1h}", second: "allowed\n1\n"},
		"password": {limits: []string{"1/year using fixed_window"}, password: "0123456789abcdef", user: "ann", second: "allowed\n0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := config.Defaults()
			conf.Limits, conf.RESP.Listen, conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = c.limits, "127.0.0.1:0", "127.0.0.1:0", "", ""
			conf.RESP.Password, conf.RESP.User = config.Secret(c.password), c.user
			if c.rule != "" {
				conf.Rules = filepath.Join(t.TempDir(), "rules.yaml")
				if err := os.WriteFile(conf.Rules, []byte("domain: api\ndescriptors:\n"+c.rule+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, r := started(t, conf, slog.New(slog.DiscardHandler))
			answerOf(t, r.Redis, "WEIR_RESP_PASSWORD="+c.password)
			if got := answerOf(t, r.Redis, "WEIR_RESP_PASSWORD="+c.password); !strings.Contains(got, c.second) {
				t.Errorf("%s answered\n%s\nwant %q", r.Redis, got, c.second)
			}
		})
	}
}

// TestBannerAsksAsAProxy: the command for forward-auth meets the first limit, and there
// is none for the API, which nobody has asked for. Where this machine is no proxy there is
// no command.
func TestBannerAsksAsAProxy(t *testing.T) {
	servertest.Binary(t, "curl")
	for _, c := range []struct {
		trusted []string
		codes   []string
	}{{[]string{"127.0.0.1"}, []string{"200", "429"}}, {[]string{"192.0.2.0/24"}, nil}} {
		conf := asking("1/year by ip using fixed_window")
		conf.Identity.Proxies.Trusted = c.trusted
		conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = "127.0.0.1:0", "", ""
		_, r := started(t, conf, slog.New(slog.DiscardHandler))
		if strings.Contains(r.String(), "clientId") {
			t.Errorf("an example of the API in\n%s", r)
		}
		if (r.Proxy == "") != (c.codes == nil) {
			t.Errorf("%q trusted: %q", c.trusted, r.Proxy)
			continue
		}
		for i, want := range c.codes {
			if got := answerOf(t, strings.Replace(r.Proxy, "curl -i", `curl -s -o /dev/null -w '%{http_code}'`, 1)); got != want {
				t.Errorf("%s, request %d: %s, want %s", r.Proxy, i+1, got, want)
			}
		}
	}
}

// TestBannerNamesLimitsInForce: the first of them, in words; not those that no request
// can meet.
func TestBannerNamesLimitsInForce(t *testing.T) {
	conf := config.Defaults()
	conf.Limits, conf.Upstream = []string{"1/s", "2/s by all"}, markedUpstream(t)
	conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = "127.0.0.1:0", "", ""
	conf.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(conf.Rules, []byte(`domain: api
descriptors:
  - {key: client_id, limit: 9/minute}
  - {key: host, limit: {unlimited: true}}
  - {key: path, value: /login, descriptors: [{key: remote_address, limit: 5/minute, name: login}]}
  - {key: remote_address, deny: [192.0.2.1]}
  - {key: method, limit: 3/minute, mode: shadow}
  - {key: path, limit: 4/minute}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, r := started(t, conf, slog.New(slog.DiscardHandler))
	want := []string{"1/s", "2/s by all", `path="/login"/remote_address: 5/minute sliding_window (login)`, "remote_address: a deny list", "method: 3/minute sliding_window, shadow (method)"}
	if !slices.Equal(r.Limits, want) || r.MoreLimits != 1 {
		t.Errorf("got %q and %d more, want %q and 1 more", r.Limits, r.MoreLimits, want)
	}
}
