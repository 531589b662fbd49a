package node_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// startRESP runs a node until the test ends.
func startRESP(t *testing.T, c *config.Config) node.Ready {
	t.Helper()
	s, err := node.New(c, node.Build{Version: "v1.2.3"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan node.Ready, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return <-ready
}

// ask sends lines of commands to a node and returns as many lines of replies.
func ask(t *testing.T, nc net.Conn, lines int, commands ...string) string {
	t.Helper()
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(nc, strings.Join(commands, "\r\n")+"\r\n")
	r, got := bufio.NewReader(nc), []string{}
	for range lines {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, strings.TrimSuffix(line, "\r\n"))
	}
	return strings.Join(got, "|")
}

func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// TestRESP: a node speaks the Redis protocol, by the numbers of a call and by its
// rules; and tells operators.
func TestRESP(t *testing.T) {
	c := local("2/year by client_id using fixed_window")
	c.RESP.Listen = "127.0.0.1:0"
	r := startRESP(t, c)
	if !strings.HasPrefix(r.URLs["resp"], "redis://127.0.0.1:") || !strings.Contains(r.String(), "redis-cli -u "+r.URLs["resp"]+" WEIR.CHECK api client_id 123\n") {
		t.Errorf("%v\n%s", r.URLs, r)
	}
	nc, err := net.Dial("tcp", hostOf(t, r.URLs["resp"]))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := ask(t, nc, 6, "CL.THROTTLE user123 15 30 60"); got != "*5|:0|:16|:15|:-1|:2" {
		t.Error(got)
	}
	if got := ask(t, nc, 6, "CL.THROTTLE user123 15 30 60 16"); !strings.HasPrefix(got, "*5|:1|:16|:15|") {
		t.Error(got)
	}
	for i := range 3 {
		if got := ask(t, nc, 21, "WEIR.CHECK api client_id 7"); !strings.Contains(got, fmt.Sprintf("|allowed|:%d|", max(0, min(1, 2-i)))) {
			t.Error(got)
		}
	}
	if got := ask(t, nc, 1, "WEIR.RESET api client_id 7"); got != ":1" {
		t.Error(got)
	}
	if got := ask(t, nc, 5, "INFO server"); !strings.Contains(got, "weir_version:v1.2.3") {
		t.Error(got)
	}
	if got := ask(t, nc, 2, "INFO server"); got == "" {
		t.Error(got)
	}
	_, text := get(t, r.URLs["admin"]+"/metrics")
	for _, want := range []string{
		`weir_decisions_total{decision="allowed",domain="",limit="CL.THROTTLE",rule="CL.THROTTLE"} 1`,
		`weir_decisions_total{decision="refused",domain="",limit="CL.THROTTLE",rule="CL.THROTTLE"} 1`,
		"weir_resp_clients 1\n", "weir_resp_max_clients 4096\n", `weir_resp_connections_total{result="accepted"} 1`, "weir_resp_commands_total ",
		"weir_resp_batch_duration_seconds_count ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestRESPAlone: no rules are needed for limits that come with each call; the
// port alone is on loopback.
func TestRESPAlone(t *testing.T) {
	c := local()
	c.RESP.Listen = fmt.Sprint(servertest.FreePort(t))
	r := startRESP(t, c)
	if r.URLs["resp"] != "redis://127.0.0.1:"+c.RESP.Listen {
		t.Error(r.URLs)
	}
}

func TestRESPOnASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	c := local()
	c.RESP.Listen = "unix:" + path
	r := startRESP(t, c)
	if !strings.Contains(r.String(), "redis-cli -s "+path) {
		t.Error(r)
	}
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := ask(t, nc, 1, "PING"); got != "+PONG" {
		t.Error(got)
	}
}

// TestRESPEncrypted: with TLS, a password from a file, and a certificate that is
// renewed.
func TestRESPEncrypted(t *testing.T) {
	dir := t.TempDir()
	c := local()
	c.RESP.Listen, c.RESP.User, c.RESP.PasswordFile = "127.0.0.1:0", "app", filepath.Join(dir, "password")
	if err := os.WriteFile(c.RESP.PasswordFile, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var pair tls.Certificate
	c.RESP.TLS.Cert, c.RESP.TLS.Key, pair = servertest.Certificate(t, dir, "first")
	r := startRESP(t, c)
	if !strings.HasPrefix(r.URLs["resp"], "rediss://") {
		t.Error(r.URLs)
	}
	dial := func(pair tls.Certificate) (*tls.Conn, error) {
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(leaf)
		return tls.Dial("tcp", hostOf(t, r.URLs["resp"]), &tls.Config{RootCAs: pool})
	}
	nc, err := dial(pair)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := ask(t, nc, 3, "CL.THROTTLE k 1 1 1", "*3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$13\r\ncorrect horse", "PING"); got != "-NOAUTH Authentication required.|+OK|+PONG" {
		t.Error(got)
	}
	_, _, renewed := servertest.Certificate(t, dir, "second")
	servertest.Await(t, "the new certificate", func() bool {
		nc, err := dial(renewed)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

// TestRESPNeedsPassword: the listener refuses to leave loopback without one.
func TestRESPNeedsPassword(t *testing.T) {
	f := func(addr string, ok bool) {
		t.Helper()
		c := local()
		c.RESP.Listen = addr
		s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
		if err == nil {
			defer s.Close()
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		if err != nil && !strings.Contains(err.Error(), "resp.password_file") {
			t.Errorf("no cure in: %v", err)
		}
	}
	f("127.0.0.1:6380", true)
	f("6380", true)
	f("localhost:6380", true)
	f("[::1]:6380", true)
	f("unix:/run/weir.sock", true)
	f(":6380", false)
	f("0.0.0.0:6380", false)
	f("redis.example:6380", false)
}

func TestRESPImpossible(t *testing.T) {
	f := func(change func(*config.RESP), want string) {
		t.Helper()
		c := local()
		c.RESP.Listen = "127.0.0.1:0"
		change(&c.RESP)
		s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
			t.Errorf("taken; want %s", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f(func(r *config.RESP) { r.User = "app" }, "resp.user has no password")
	f(func(r *config.RESP) { r.Password, r.PasswordFile = "a", "b" }, "keep one")
	f(func(r *config.RESP) { r.PasswordFile = "gone" }, "resp.password_file")
	f(func(r *config.RESP) { r.MaxClients = 0 }, "resp.max_clients")
	f(func(r *config.RESP) { r.IdleTimeout = -1 }, "resp.idle_timeout")
	f(func(r *config.RESP) { r.Timeout = 0 }, "resp.timeout")
	f(func(r *config.RESP) { r.TLS.Cert = "x" }, "resp.tls.cert and resp.tls.key go together")
}

// TestFamilyShortRedisPasswords: a password that others can find by trying is an error at
// every address that other machines reach, wherever it is written, and none at others.
func TestFamilyShortRedisPasswords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for _, password := range []string{"x", "fifteen bytes..", "sixteen bytes..."} {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for addr, remote := range map[string]bool{
			"0.0.0.0:6380": true, ":6380": true, "[::]:6380": true, "203.0.113.1:6380": true, "redis.example:6380": true, "[::ffff:203.0.113.1]:6380": true,
			"127.0.0.1:6380": false, "127.0.0.9:6380": false, "[::1]:6380": false, "[::ffff:127.0.0.1]:6380": false, "localhost:6380": false, "6380": false, "unix:/run/weir.sock": false,
		} {
			for _, inFile := range []bool{false, true} {
				c := local()
				c.RESP.Listen = addr
				if inFile {
					c.RESP.PasswordFile = file
				} else {
					c.RESP.Password = config.Secret(password)
				}
				s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
				if err == nil {
					s.Close()
				}
				if want := remote && len(password) < 16; (err != nil) != want || want && !strings.Contains(err.Error(), "openssl rand -hex 16") {
					t.Errorf("%q at %s, in a file %t: %v, want an error %t", password, addr, inFile, err, want)
				}
			}
		}
	}
}
