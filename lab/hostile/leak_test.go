package hostile

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestRefusalsTellNothing: the 429 of an account that exists and of one that
// does not are the same bytes, but for the date and the seconds to wait.
func TestRefusalsTellNothing(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--upstream", u.URL, "--rules", rules(t, `
domain: api
descriptors:
- {key: account, limit: 1/year, algorithm: fixed_window}
`), "--config", rules(t, "routes: [{path: /login, descriptors: [{entries: [{key: account, from: 'query:account'}]}]}]\n"))
	refusal := func(account string) string {
		t.Helper()
		for range 2 {
			c := s.dial(t)
			fmt.Fprintf(c, "POST /login?account=%s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", account)
			text, err := closed(c)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(text, "HTTP/1.1 429 ") {
				if strings.Contains(text, account) {
					t.Errorf("the account is repeated: %s", text)
				}
				return regexp.MustCompile(`\d+`).ReplaceAllString(strings.ReplaceAll(text, http.StatusText(http.StatusTooManyRequests), ""), "N")
			}
		}
		t.Fatalf("%s is not refused", account)
		return ""
	}
	date := regexp.MustCompile(`Date: [^\r]*`)
	known, unknown := refusal("alice"), refusal("nobody-of-that-name")
	if date.ReplaceAllString(known, "") != date.ReplaceAllString(unknown, "") {
		t.Errorf("%s\nis not\n%s", known, unknown)
	}
}

// TestOthersAreNotReadable: what a client is told is about himself, whomever he
// says he is; and the ways to ask about others are not on the public port.
func TestOthersAreNotReadable(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	const token = "0123456789abcdef-token"
	s := serve(t, "--limit", "10/year by ip using fixed_window", "--upstream", u.URL, "WEIR_ADMIN_TOKEN="+token,
		"--trusted-proxies", "10.0.0.0/8", "WEIR_USER_FROM=header:X-User")
	ask := func(from, headers string) string {
		c := s.dialFrom(t, from)
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n%s\r\n", headers)
		text, _ := closed(c)
		_, rest, _ := strings.Cut(text, "X-Ratelimit-Remaining: ")
		left, _, _ := strings.Cut(rest, "\r\n")
		return left
	}
	for i := range 5 {
		if got := ask("127.0.0.3", ""); got != fmt.Sprint(9-i) {
			t.Fatalf("%q left", got)
		}
	}
	for i, claim := range []string{"", "X-Forwarded-For: 127.0.0.3\r\n", "Forwarded: for=127.0.0.3\r\n", "X-User: admin\r\n", "X-Real-IP: 127.0.0.3\r\n"} {
		if got := ask("127.0.0.2", claim); got != fmt.Sprint(9-i) {
			t.Errorf("with %q: %q left, want %d, the sender's own", claim, got, 9-i)
		}
	}
	// Every path of the API and of operators is the upstream's, to whoever comes
	// through a proxy.
	for _, path := range []string{
		"/shouldAllowRequest", "/v1/check", "/v1/peek", "/v1/acquire", "/v1/admin/inspect", "/v1/admin/reset", "/v1/admin/grant", "/v1/admin/ban", "/v1/rules", "/v1/explain",
		"/openapi.json", "/metrics", "/config", "/version", "/rules", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/vars", "/healthz/ready", "/healthcheck",
	} {
		before := u.requests.Load()
		s.raw(t, "127.0.0.9", "GET "+path+" HTTP/1.1\r\nHost: h\r\nVia: 1.1 proxy\r\n\r\n")
		s.raw(t, "127.0.0.10", "POST "+path+" HTTP/1.1\r\nHost: h\r\nVia: 1.1 proxy\r\nContent-Length: 0\r\n\r\n")
		if got := u.requests.Load() - before; got != 2 && got != 0 {
			t.Errorf("%s: %d reached the upstream", path, got)
		}
	}
}

// TestOperatorsPathsAreNotPublic: without an upstream, the public port has the
// API alone, and of operators' paths only those that ask for the token.
func TestOperatorsPathsAreNotPublic(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef-token"
	for _, args := range [][]string{{"WEIR_ADMIN_TOKEN=" + token}, nil} {
		s := serve(t, append(args, "--limit", "10/hour by client_id")...)
		for _, path := range []string{"/metrics", "/config", "/version", "/rules", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/cmdline", "/debug/vars", "/"} {
			if code, _, _ := get(t, "http://"+s.addr+path); code != 404 {
				t.Errorf("%s is answered %d on the public port", path, code)
			}
		}
		for _, path := range []string{"/v1/admin/inspect", "/v1/admin/reset", "/v1/admin/grant", "/v1/admin/ban", "/v1/rules", "/v1/explain"} {
			for _, auth := range []string{"", "Bearer ", "Bearer wrong", "Basic " + token, "Bearer " + token[:len(token)-1], "Bearer " + token + "x"} {
				method := "POST"
				if path == "/v1/rules" {
					method = "GET"
				}
				req, err := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(`{"descriptors":[{"entries":[{"key":"client_id","value":"x"}]}]}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", auth)
				res, err := neighbour.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				// 429 after some wrong tokens, which are bounded.
				if code, _, body := read(t, res); code != 401 && code != 403 && code != 404 && code != 429 {
					t.Errorf("%s with %q: %d %s", path, auth, code, body)
				}
			}
		}
	}
}

// TestSecretsAreNotTold: in the printed configuration, on the admin port, in the
// logs, in the process's own description of itself.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	const token, password = "s3cr3t-of-the-operators", "sesame-open"
	args := []string{"--limit", unlimited, "WEIR_ADMIN_TOKEN=" + token, "--log-level", "debug"}
	out, err := servertest.Invoke(command, append([]string{"serve", "--print-config", "--store", "redis://u:" + password + "@h"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	told := string(out)
	// The error of a wrong configuration repeats none either.
	for _, more := range [][]string{nil, {"--print-config"}} {
		wrong := append([]string{"serve", "--upstream", "http://u:" + password + "@h", "--store", "x://u:" + password + "@h"}, args...)
		out, err = servertest.Invoke(command, append(wrong, more...)...).CombinedOutput()
		if err == nil {
			t.Fatal("it serves")
		}
		told += string(out)
	}
	s := serve(t, append(args, "--upstream", nginx(t))...)
	ask := func(path string) {
		req, err := http.NewRequest("GET", "http://"+s.admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := neighbour.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _, body := read(t, res)
		told += body
	}
	for _, path := range []string{"/", "/config", "/metrics", "/version", "/rules", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/v1/rules"} {
		ask(path)
	}
	if !strings.Contains(told, "(redacted)") {
		t.Error("the configuration was not printed")
	}
	told += s.Output()
	for _, secret := range []string{token, password} {
		if i := strings.Index(told, secret); i >= 0 {
			t.Errorf("%q is told: %q", secret, told[max(0, i-80):min(len(told), i+40)])
		}
	}
}

// TestLogsCannotBeForged: whatever stands in a request, each line of the log is
// one that the node began.
func TestLogsCannotBeForged(t *testing.T) {
	t.Parallel()
	const forged = "forged-line"
	hostile := []string{
		"a\nlevel=ERROR msg=" + forged, "a\r\n{\"msg\":\"" + forged + "\"}", `a" level=ERROR msg="` + forged, "\x1b[31m" + forged, "\u2028" + forged, "\x00\x7f" + forged, `","msg":"` + forged,
	}
	dead := fmt.Sprintf("http://127.0.0.1:%d", servertest.FreePort(t))
	for _, format := range []string{"text", "json"} {
		s := serveAs(t, format, "--limit", unlimited, "--upstream", dead, "--log-level", "debug", "--trusted-proxies", "127.0.0.0/8")
		for _, h := range hostile {
			escaped := strings.NewReplacer("\n", "%0a", "\r", "%0d", "\"", "%22", " ", "%20", "\x00", "%00").Replace(h)
			for _, text := range []string{
				"GET /" + escaped + " HTTP/1.1\r\nHost: h", "GET / HTTP/1.1\r\nHost: " + h, "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: " + h,
				h + " / HTTP/1.1\r\nHost: h", "GET / " + h + "\r\nHost: h", "POST /shouldAllowRequest HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\n" + h,
				"GET / HTTP/1.1\r\nHost: h\r\n" + h + ": x",
			} {
				c := s.dial(t)
				io.WriteString(c, text+"\r\nConnection: close\r\n\r\n")
				closed(c)
			}
		}
		// Its output is whole when it has ended.
		if err := s.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, err := s.Wait(t.Context()); err != nil || code != 0 {
			t.Fatalf("ended with %d, %v", code, err)
		}
		lines := slices.Collect(strings.Lines(s.Output()))
		logged := 0
		for _, line := range lines {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f || r == '\u2028' }) {
				t.Errorf("%s: a control character in %q", format, line)
			}
			switch {
			case strings.HasPrefix(line, `{"time":`):
				logged++
				var l struct{ Msg string }
				if err := json.Unmarshal([]byte(line), &l); err != nil || strings.HasPrefix(l.Msg, forged) {
					t.Errorf("%s: %q, %v", format, line, err)
				}
			case strings.HasPrefix(line, "time="):
				logged++
				if bytes.Contains([]byte(line), []byte(" msg="+forged)) {
					t.Errorf("%s: %q", format, line)
				}
			case strings.Contains(line, forged):
				t.Errorf("%s: %q", format, line)
			}
		}
		if logged < 3 {
			t.Errorf("%s: %d lines were logged, so nothing is proved:\n%s", format, logged, s.Output())
		}
	}
}

// TestOldTLSIsRefused: on both ports nothing below TLS 1.2 is spoken.
func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	cert, key, _ := servertest.Certificate(t, t.TempDir(), "weir")
	s := serve(t, "--limit", unlimited, "WEIR_TLS_CERT="+cert, "WEIR_TLS_KEY="+key, "WEIR_ADMIN_TLS_CERT="+cert, "WEIR_ADMIN_TLS_KEY="+key)
	for _, addr := range []string{s.addr, s.admin} {
		for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
			c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
			if (err == nil) != want {
				t.Errorf("%s: %v", tls.VersionName(version), err)
			}
			if err == nil {
				c.Close()
			}
		}
	}
}
