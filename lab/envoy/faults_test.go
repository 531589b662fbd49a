package envoy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// timed sends a request and reports its status, and whether it took less than a second.
func (p *proxy) timed(t testing.TB, path string, fields ...string) int {
	t.Helper()
	began := time.Now()
	code := p.get(t, path, fields...).code
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a response took %s", took)
	}
	return code
}

// A Weir that stands still, or is gone: the files say what Envoy does, and how soon. The
// next request after its return is counted.
func TestWeirStopsAndDies(t *testing.T) {
	processes(t)
	for name, c := range map[string]struct {
		args    []string
		conf    func(t testing.TB) string
		without int // the status without Weir
	}{
		"ext-authz-grpc": {[]string{"--limit", "3/hour by ip", "--ext-authz"}, func(t testing.TB) string { return deployed(t, "envoy/ext-authz-grpc.yaml") }, 503},
		"ext-authz-http": {[]string{"--limit", "3/hour by ip", "--forward-auth", "/auth", "--trusted-proxies", "127.0.0.1"},
			func(t testing.TB) string { return deployed(t, "envoy/ext-authz-http.yaml") }, 503},
		"ext-authz, allowed on failure": {[]string{"--limit", "3/hour by ip", "--ext-authz"}, func(t testing.TB) string {
			return strings.Replace(deployed(t, "envoy/ext-authz-grpc.yaml"), "failure_mode_allow: false", "failure_mode_allow: true", 1)
		}, 200},
		"rate limits, open":   {[]string{"--limit", "3/hour by user"}, func(t testing.TB) string { return failing(nil).bootstrap(t) }, 200},
		"rate limits, closed": {[]string{"--limit", "3/hour by user"}, func(t testing.TB) string { return failing(object{"failure_mode_deny": true}).bootstrap(t) }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			weir, app := serve(t, c.args...), serveApplication(t)
			e := startImpatient(t, c.conf(t), ports(app.addr, weir))
			ask := func() int { return e.timed(t, "/", "X-User", "ann") }
			if ask(); len(app.requests()) != 1 {
				t.Error("the first request is not let through")
			}
			signal := func(s os.Signal) {
				if err := weir.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			want(t, "it stands still", []int{ask(), ask()}, times(2, c.without))
			signal(syscall.SIGCONT)
			// What was asked meanwhile may be counted, so that some are left of three, or none.
			servertest.Await(t, "a refusal", func() bool { return ask() == 429 })
			signal(syscall.SIGKILL)
			servertest.Await(t, "its end", func() bool { return ask() == c.without })
			want(t, "it is gone", []int{ask(), ask()}, times(2, c.without))
		})
	}
}

// failing is rate limits by x-user, with the patience of the files for ext_authz.
func failing(more object) setup {
	s := filtered(with(object{"timeout": "0.25s"}, more))
	s.filters[0].(object)["typed_config"].(object)["domain"] = "api"
	return s
}

// Envoy's access log, in its own format and in JSON, is read by `weir replay` whole, and
// would be refused as it was.
func runAccessLogs(t *testing.T, blocks ...string) {
	app := serveApplication(t)
	fields := object{"start_time": "%START_TIME%", "method": "%REQ(:METHOD)%", "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", "protocol": "%PROTOCOL%",
		"response_code": "%RESPONSE_CODE%", "downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%", "authority": "%REQ(:AUTHORITY)%", "user_agent": "%REQ(USER-AGENT)%"}
	for name, format := range map[string]object{"text": nil, "json": {"log_format": object{"json_format": fields}}} {
		log := filepath.Join(t.TempDir(), "access.log")
		weir := serve(t, "--limit", "5/day by ip", "--ext-authz")
		e := startEnvoy(t, setup{
			filters: list{parse(t, blocks[0]).(list)[0]},
			manager: object{"access_log": list{object{"name": "envoy.access_loggers.file", "typed_config": typed("envoy.extensions.access_loggers.file.v3.FileAccessLog",
				with(object{"path": log}, format))}}},
		}.bootstrap(t), ports(app.addr, weir))
		statuses := e.codes(t, 4, "/a?b=c", "User-Agent", `quoted " and \xff`)
		statuses = append(statuses, e.raw(t, "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"), e.do(t, h2, "POST", "/", "x").code)
		statuses = append(statuses, e.codes(t, 3, "/")...)
		want(t, name, statuses, []int{200, 200, 200, 200, 400, 429, 429, 429, 429}) // the application's 400 counts
		servertest.Await(t, "the log", func() bool {
			text, err := os.ReadFile(log)
			return err == nil && strings.Count(string(text), "\n") >= len(statuses)
		})
		rules := writeFile(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: remote_address, limit: 5/day}\n")
		out, err := exec.Command(command, "replay", "--json", "--rules", rules, log).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var report struct {
			Lines    int `json:"lines"`
			Bad      int `json:"invalid_lines"`
			Requests int `json:"requests"`
			Rules    struct {
				Refused int `json:"refused"`
			} `json:"rules"`
		}
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(report.Lines, report.Bad, report.Requests, report.Rules.Refused), fmt.Sprint(len(statuses), 0, len(statuses), len(statuses)-5); got != want {
			t.Errorf("%s: lines, unreadable, requests, refused: %s, want %s\n%s\n%s", name, got, want, text, out)
		}
	}
}
