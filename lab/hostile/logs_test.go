package hostile

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/testing/grpctest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyNobodyFloodsTheLog: whatever strangers send to any port, each message is
// logged once a second at most, or a number of times in all.
func TestFamilyNobodyFloodsTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, _ := servertest.Certificate(t, dir, "node")
	keys := filepath.Join(dir, "keys.csv")
	if err := os.WriteFile(keys, []byte("sha256,user,tier\n"+strings.Repeat("0", 64)+",alice,free\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	common := []string{"--resp", "127.0.0.1:0", "WEIR_RESP_PASSWORD=" + respPassword, "WEIR_ADMIN_TOKEN=0123456789abcdef", "--grpc", "127.0.0.1:0"}
	dead := fmt.Sprintf("http://127.0.0.1:%d", servertest.FreePort(t))
	gateway := serve(t, append(common, "--limit", "1/second by ip", "--upstream", dead, "WEIR_TLS_CERT="+cert, "WEIR_TLS_KEY="+key, "WEIR_API_KEYS="+keys, "WEIR_API_KEY_FROM=header:X-API-Key", "WEIR_USER_FROM=api_key",
		"--forward-auth", "/auth", "--trusted-proxies", "127.0.0.9", "--proxy-protocol", "127.0.0.8",
		"--config", servertest.Config(t, "http: {max_connections: 40, max_client_connections: 4}\nroutes: [{path: '/*', descriptors: [{entries: [remote_address]}]}]"))...)
	api := serve(t, append(common, "--rules", rules(t, "domain: api\ndescriptors:\n  - {key: remote_address, limit: 1/second}\n"),
		"--forward-auth", "/auth", "--trusted-proxies", "127.0.0.9", "--proxy-protocol", "127.0.0.8", "WEIR_RESP_TLS_CERT="+cert, "WEIR_RESP_TLS_KEY="+key)...)
	began := time.Now()
	each(8, func(caller int) {
		for i := range n(4, 60) {
			for _, s := range []*node{gateway, api} {
				floodDoors(s, fmt.Sprintf("127.0.0.%d", 10+i%4), 1000*caller+i)
			}
		}
	})
	for _, s := range []*node{gateway, api} {
		lines, messages := 0, map[string]int{}
		for line := range strings.Lines(s.Output()) {
			var l struct {
				Msg, Err string
				Time     time.Time
			}
			if json.Unmarshal([]byte(line), &l) == nil && l.Time.After(began) {
				lines++
				messages[l.Msg]++
			}
		}
		perSecond := int(time.Since(began)/time.Second) + 2
		for msg, many := range messages {
			most := perSecond
			if msg == "requests are not limited: no rule matches them" {
				most = 50 // each once, the first fifty
			}
			if many > most {
				t.Errorf("%q is logged %d times in %s, want at most %d", msg, many, time.Since(began), most)
			}
		}
		if len(messages) < 4 {
			t.Errorf("%d messages, so little is proved: %v", len(messages), messages)
		}
		t.Logf("%d lines in %s: %v", lines, time.Since(began).Round(time.Millisecond), messages)
	}
}

// floodDoors sends what no port of a node can use, each from an address of its own.
func floodDoors(s *node, from string, number int) {
	web := s.Listening("http")
	const end = "\r\nHost: h\r\nConnection: close\r\n\r\n"
	for _, first := range []string{
		"GET /a/../b HTTP/1.1" + end,
		"GET / HTTP/1.1\r\nX-API-Key: " + fmt.Sprint("wrong-key-of-strangers-", number) + end,
		"GET / HTTP/1.1\r\nAuthorization: Bearer a b" + end,
		"GET / HTTP/1.1\r\nX-Forwarded-For: 203.0.113.1" + end,
		"GET /auth HTTP/1.1\r\nX-Forwarded-Uri: /x" + end,
		"GET /" + fmt.Sprint(number) + " HTTP/1.1" + end,
		"POST /v1/check HTTP/1.1\r\nContent-Length: 3" + end + "{x}",
		unmatched("a", number), unmatched("b", number),
		"POST /v1/admin/ban HTTP/1.1\r\nAuthorization: Bearer guess\r\nContent-Length: 2" + end + "{}",
		"GET / HTTP/1.1\r\nTransfer-Encoding: odd" + end, "\x16\x03\x01\xff\xff",
	} {
		sendSecured(from, web, first)
		sendPlain(from, web, first)
	}
	sendPlain("127.0.0.8", web, "GET / HTTP/1.1"+end)
	for _, first := range []string{"AUTH wrong\r\n", "GET / HTTP/1.1\r\n", "*1\r\n$99999999\r\n", "\x16\x03\x01\xff\xff"} {
		sendPlain(from, s.Listening("resp"), first)
		sendPlain(from, s.Listening("grpc"), first)
		sendSecured(from, s.Listening("resp"), first)
	}
	login := url.Values{"token": {"a wrong token of some length"}}
	if res, err := neighbour.PostForm("http://"+s.admin+"/ui/login", login); err == nil {
		res.Body.Close()
	}
	req, err := http.NewRequest("GET", "http://"+s.admin+"/debug/pprof/", nil)
	if err == nil {
		req.Header.Set("Authorization", "Bearer wrong")
		if res, err := neighbour.Do(req); err == nil {
			res.Body.Close()
		}
	}
}

// unmatched returns a question about a domain that no rule has.
func unmatched(domain string, number int) string {
	body := fmt.Sprintf(`{"domain":"%s%d","descriptors":[{"entries":{"k":"v"}}]}`, domain, number)
	return fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// sendPlain sends text over a connection of its own and reads what is answered, which may
// be nothing.
func sendPlain(from, to, text string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	if c, err := d.Dial("tcp", to); err == nil {
		converse(c, text)
	}
}

// sendSecured is sendPlain over TLS.
func sendSecured(from, to, text string) {
	d := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
	if c, err := d.Dial("tcp", to); err == nil {
		converse(c, text)
	}
}

func converse(c net.Conn, text string) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(50*time.Millisecond)) != nil {
		return
	}
	if _, err := io.WriteString(c, text); err == nil {
		_, _ = io.Copy(io.Discard, c) // whatever it is
	}
}

// TestFamilyNobodyFloodsTheLogOfRatelimit is the same of `weir ratelimit`, also while its
// store is away.
func TestFamilyNobodyFloodsTheLogOfRatelimit(t *testing.T) {
	t.Parallel()
	store := servertest.Redis(t)
	cmd := exec.Command(command, "ratelimit")
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "shop.yaml"), []byte("domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = []string{
		"LOG_FORMAT=json", "LOG_LEVEL=INFO", "RUNTIME_ROOT=" + filepath.Dir(root), "RUNTIME_SUBDIRECTORY=" + filepath.Base(root), "RUNTIME_APPDIRECTORY=.",
		"RUNTIME_WATCH_ROOT=false", "BACKEND_TYPE=redis", "REDIS_URL=" + store.Addr, "REDIS_SOCKET_TYPE=tcp", "USE_STATSD=false", "USE_PROMETHEUS=true",
	}
	ports := map[string]string{}
	for _, name := range []string{"", "GRPC_", "DEBUG_"} {
		port := fmt.Sprint(servertest.FreePort(t))
		ports[name] = "127.0.0.1:" + port
		cmd.Env = append(cmd.Env, name+"HOST=127.0.0.1", name+"PORT="+port)
	}
	ports["PROMETHEUS"] = fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	cmd.Env = append(cmd.Env, "PROMETHEUS_ADDR="+ports["PROMETHEUS"])
	p := servertest.Start(t, cmd)
	for _, addr := range ports {
		servertest.Await(t, "weir ratelimit to listen at "+addr, func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	began := time.Now()
	each(8, func(caller int) {
		for i := range n(6, 100) {
			if caller == 0 && i == 2 {
				store.Kill(t)
			}
			floodRatelimit(t, ports, fmt.Sprintf("127.0.0.%d", 10+i%4), 1000*caller+i)
		}
	})
	lines, messages := 0, map[string]int{}
	for line := range strings.Lines(p.Output()) {
		var l struct {
			Msg  string    `json:"@message"`
			Time time.Time `json:"@timestamp"`
		}
		if json.Unmarshal([]byte(line), &l) != nil {
			t.Errorf("a line that is no JSON: %q", line)
		} else if l.Time.After(began) {
			lines++
			messages[l.Msg]++
		}
	}
	const balancers = "connection refused: it begins with a PROXY header of a peer from which none is read"
	if many := messages[balancers]; many != len(ports) {
		t.Errorf("of one network at %d ports, PROXY headers are told %d times", len(ports), many)
	}
	for msg, many := range messages {
		if most := int(time.Since(began)/time.Second) + 2; many > most && msg != balancers {
			t.Errorf("%q is logged %d times in %s, want at most %d", msg, many, time.Since(began), most)
		}
	}
	if len(messages) < 4 {
		t.Errorf("%d messages, so little is proved: %v\n%s", len(messages), messages, p.Output())
	}
	t.Logf("%d lines in %s: %v", lines, time.Since(began).Round(time.Millisecond), messages)
}

// floodRatelimit sends what no port of `weir ratelimit` can use, and what it can while its
// store is away.
func floodRatelimit(t *testing.T, ports map[string]string, from string, number int) {
	const end = "\r\nHost: h\r\nConnection: close\r\n"
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1%sContent-Length: %d\r\n\r\n%s", path, end, len(body), body)
	}
	for _, text := range []string{
		"GET /../x HTTP/1.1" + end + "\r\n", "GET / HTTP/1.1\r\nTransfer-Encoding: odd" + end + "\r\n", "\x16\x03\x01\xff\xff", proxyLine("203.0.113.1"),
		post("/json", "{x}"), post("/json", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"`+fmt.Sprint(number)+`"}]}]}`),
		post("/json", `{"domain":"`+fmt.Sprint(number)+`","descriptors":[{"entries":[{"key":"user","value":"x"}]}]}`),
		preface + frame(frameSettings, 0, 0, "") + frame(frameHeaders, endHeaders, 1, request("POST", "h", "/odd")) + frame(frameData, 1, 1, "\x00\x00\x00\x00\x02\xff\xff"),
	} {
		for _, addr := range ports {
			sendPlain(from, addr, text)
		}
	}
	conn, err := grpc.NewClient(ports["GRPC_"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, domain := range []string{"a\xffb", "shop", fmt.Sprint(number)} {
		user := "\x0a\x09\x0a\x04user\x12\x01x"
		question := "\x0a" + string(rune(len(domain))) + domain + "\x12" + string(rune(len(user))) + user
		// Whatever is answered.
		_ = grpctest.Invoke(ctx, conn, rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, []byte(question), new(rlsv3.RateLimitResponse))
	}
}
