package ratelimit_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// reference returns the binary of envoyproxy/ratelimit to compare with.
func reference(t *testing.T) string {
	t.Helper()
	path := os.Getenv("WEIR_REFERENCE")
	if path == "" {
		t.Skip("WEIR_REFERENCE names no binary of envoyproxy/ratelimit to compare with")
	}
	return path
}

// transcript is what a service said, in lines that two services can be compared
// by.
type transcript struct {
	t     *testing.T
	n     *node
	conn  *grpc.ClientConn
	lines []string
}

func (r *transcript) say(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

var (
	seconds = regexp.MustCompile(`(duration_until_reset|durationUntilReset|seconds|RateLimit-Reset|X-Reset)("?:\s*)(\{\s*seconds:\s*\d+\s*\}|"?\d+s?"?)`)
	spaces  = regexp.MustCompile(`\s+`)
	reset   = regexp.MustCompile(`"X-Reset",? ?"?value"?: ?"\d+"`)
)

// plain takes out of an answer what differs between two runs of one program:
// time, and the spaces that the protobuf library varies on purpose.
func plain(text string) string {
	text = spaces.ReplaceAllString(text, " ")
	text = reset.ReplaceAllString(text, `"X-Reset" value:"<n>"`)
	text = seconds.ReplaceAllString(text, "$1: <n>")
	return strings.NewReplacer(`, "`, `,"`, `, {`, `,{`, `": `, `":`, "{ ", "{", " }", "}").Replace(text)
}

// ask sends a request over gRPC.
func (r *transcript) ask(what string, req *rlsv3.RateLimitRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := rlsv3.NewRateLimitServiceClient(r.conn).ShouldRateLimit(ctx, req)
	if err != nil {
		r.say("%s: error %v", what, err)
		return
	}
	r.say("%s: %s", what, plain(prototext.MarshalOptions{}.Format(res)))
}

// post sends a body to /json.
func (r *transcript) post(method, body string) {
	req, err := http.NewRequest(method, "http://"+r.n.http+"/json", bytes.NewReader([]byte(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.say("%s /json %s: %d %q %s", method, body, res.StatusCode, res.Header.Get("Content-Type"), plain(servertest.Body(r.t, res)))
}

func (r *transcript) get(name, addr, path string) {
	res, err := http.Get("http://" + addr + path)
	if err != nil {
		r.t.Fatal(err)
	}
	body := servertest.Body(r.t, res)
	if path == "/rlconfig" { // in random order there
		all := strings.Split(body, "\n")
		sort.Strings(all)
		body = strings.Join(all, "\n")
	}
	if path == "/stats" {
		body = regexp.MustCompile(`(?m)^(\w+): .*$`).ReplaceAllString(body, "$1")
	}
	r.say("%s %s: %d %q %q", name, path, res.StatusCode, res.Header.Get("Content-Type"), body)
}

// moved asks for a path that may be another's.
func (r *transcript) moved(path string) {
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get("http://" + r.n.http + path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.say("%s: %d %q %q", path, res.StatusCode, res.Header.Get("Location"), servertest.Body(r.t, res))
}

func (r *transcript) health(service string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := healthpb.NewHealthClient(r.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	r.say("health of %q: %v %v", service, res.GetStatus(), err)
}

// request makes one of descriptors, each entries "k=v,k=v".
func request(domain string, descriptors ...string) *rlsv3.RateLimitRequest {
	req := &rlsv3.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		d := &commonv3.RateLimitDescriptor{}
		for _, pair := range strings.Split(text, ",") {
			k, v, _ := strings.Cut(pair, "=")
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: k, Value: v})
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

const manyRules = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: user
    value: vip
    rate_limit: {unit: day, requests_per_unit: 300, name: vip}
  - key: ip
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: path
    value: /a/*
    value_to_metric: true
    descriptors:
      - key: method
        rate_limit: {unit: hour, requests_per_unit: 1}
        descriptors:
          - key: deep
            rate_limit: {unit: hour, requests_per_unit: 1}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: week, requests_per_unit: 1}
  - key: free
    rate_limit: {unlimited: true}
  - key: quota
    quota_mode: true
    metadata: {backend: one}
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: none
`

// drive asks a service all kinds of things.
func (r *transcript) drive(root string) {
	n := r.n
	r.get("http", n.http, "/healthcheck")
	r.get("http", n.http, "/")
	r.get("http", n.http, "/json/")
	for _, path := range []string{"//json?a=b", "/a/../healthcheck", "/json//", "/%2e/json", "/js%6fn", "/json;a"} {
		r.moved(path)
	}
	r.health("")
	r.health("ratelimit")
	r.health("other")
	r.get("debug", n.debug, "/")
	r.get("debug", n.debug, "/no/such")
	r.get("debug", n.debug, "/rlconfig")
	r.get("debug", n.debug, "/stats")
	for i := range 5 {
		r.ask(fmt.Sprint("user ", i), request("shop", "user=ann"))
	}
	all := []string{"user=vip", "ip=10.0.0.1", "path=/a/b:c|d,method=GET", "path=/a/b,method=GET,deep=1", "shadow=x", "free=x", "quota=x", "none=x", "other=x", "user="}
	for i := range 4 {
		r.ask(fmt.Sprint("all ", i), request("shop", all...))
		for _, d := range all {
			r.ask(fmt.Sprint(d, " ", i), request("shop", d))
		}
	}
	r.ask("no domain", request("", "user=ann"))
	r.ask("unknown domain", request("else.where:a|b", "user=ann"))
	r.ask("no descriptors", &rlsv3.RateLimitRequest{Domain: "shop"})
	r.ask("no entries", &rlsv3.RateLimitRequest{Domain: "shop", Descriptors: []*commonv3.RateLimitDescriptor{{}}})
	hits := request("shop", "user=hits", "user=hits")
	hits.HitsAddend = 2
	hits.Descriptors[1].HitsAddend = wrapperspb.UInt64(0)
	for i := range 3 {
		r.ask(fmt.Sprint("hits ", i), hits)
	}
	over := request("shop", "user=over,x=1.2.3.4")
	over.Descriptors[0].Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: typev3.RateLimitUnit_HOUR}
	for i := range 3 {
		r.ask(fmt.Sprint("override ", i), over)
	}
	const body = `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"json"}]}],"hits_addend":2}`
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		r.post(method, body)
	}
	r.post("POST", `{"domain":"shop","descriptors":[],"nothing":1}`)
	r.post("POST", `{"domain":""}`)
	r.post("POST", `{`)

	// Rules that cannot be, then others.
	write(r.t, root, map[string]string{"config/z.yaml": "domain: shop"})
	servertest.Await(r.t, "the set to be refused", func() bool {
		v, ok := n.value("ratelimit_service_config_load_error")
		return ok && v >= 1 // there, one for each event of the file system
	})
	r.get("debug", n.debug, "/rlconfig")
	if err := os.Remove(root + "/config/z.yaml"); err != nil {
		r.t.Fatal(err)
	}
	write(r.t, root, map[string]string{"config/new.yaml": domain("new", 4)})
	n.config(line("new", 4))
	r.ask("new", request("new", "user=ann"))
	r.get("debug", n.debug, "/rlconfig")
}

// samples returns the Prometheus series, those that count with their values.
func (n *node) samples() []string {
	_, text := get(n.t, n.prom, "/metrics")
	var all []string
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case !ok || name == "#", strings.HasPrefix(name, "go_"), strings.HasPrefix(name, "process_"), strings.HasPrefix(name, "promhttp_"):
			// of the process, and of the client library's version
			if strings.HasPrefix(line, "# TYPE ratelimit_") || strings.HasPrefix(line, "# HELP ratelimit_") || strings.HasPrefix(line, "# TYPE runtime_") {
				all = append(all, strings.TrimSpace(line))
			}
			continue
		case strings.HasPrefix(name, "ratelimit_service_") && !strings.Contains(name, "_bucket{") && !strings.Contains(name, "_sum{") && !strings.Contains(name, "config_load"):
			all = append(all, name+" "+value)
		default:
			all = append(all, name)
		}
	}
	return all
}

// unexplained removes from both transcripts the lines that may differ, and shows
// what is left. why says for each pattern why.
func unexplained(t *testing.T, here, there []string, why map[string]string) {
	t.Helper()
	var patterns []*regexp.Regexp
	for p := range why {
		patterns = append(patterns, regexp.MustCompile(p))
	}
	count := map[string]int{}
	for _, l := range here {
		count[l]++
	}
	for _, l := range there {
		count[l]--
	}
	var diff []string
	for l, c := range count {
		explained := c == 0
		for _, p := range patterns {
			explained = explained || p.MatchString(l)
		}
		if !explained {
			diff = append(diff, fmt.Sprintf("%+d %s", c, l))
		}
	}
	sort.Slice(diff, func(i, j int) bool { return diff[i][2:] < diff[j][2:] })
	if diff != nil {
		t.Errorf("+ here, - there:\n%s", strings.Join(diff, "\n"))
	}
}

// both runs a function on this program and on the reference, each with rules and
// a Redis of its own.
func both(t *testing.T, env []string, drive func(t *testing.T, bin, root string, env []string) []string) (here, there []string) {
	t.Helper()
	other := reference(t)
	var got [2][]string
	for i, bin := range []string{program, other} {
		redis := servertest.Redis(t)
		root := rulesIn(t, map[string]string{"config/shop.yaml": manyRules})
		env := append(append(inPlace(root), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr), env...)
		got[i] = drive(t, bin, root, env)
		if len(got[i]) == 0 {
			t.Fatalf("%s said nothing", bin)
		}
	}
	return got[0], got[1]
}

func TestReferenceAnswers(t *testing.T) {
	modes := map[string][]string{
		"plain":   nil,
		"headers": {"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-Reset", "RESPONSE_DYNAMIC_METADATA=true"},
		"modes":   {"SHADOW_MODE=true", "QUOTA_MODE=true", "NEAR_LIMIT_RATIO=0.5"},
		"cache":   {"LOCAL_CACHE_SIZE_IN_BYTES=1048576", "CACHE_KEY_PREFIX=x_", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"},
		"tags":    {"EXTRA_TAGS=env:prod,region:a"},
	}
	for name, env := range modes {
		t.Run(name, func(t *testing.T) {
			here, there := both(t, env, func(t *testing.T, bin, root string, env []string) []string {
				n := start(t, bin, env...)
				r := &transcript{t: t, n: n, conn: n.dial()}
				if strings.Contains(strings.Join(env, " "), "EXTRA_TAGS") {
					// Tags are part of names there, which the mapping does not know.
					r.ask("one", request("shop", "user=ann"))
				} else {
					r.drive(root)
				}
				time.Sleep(300 * time.Millisecond) // flushes, which nothing tells of there
				return append(r.lines, n.samples()...)
			})
			unexplained(t, here, there, map[string]string{
				`^(# \w+ )?ratelimit_go_(numGC|pauseTotalNs)`: "this program collects garbage less often",
			})
		})
	}
}

// lines of statsd, by name: what was told.
func collect(t *testing.T, network string) (port string, told func() []string) {
	t.Helper()
	var mu sync.Mutex
	names := map[string]map[string]bool{}
	sums := map[string]uint64{}
	take := func(line string) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok {
			return
		}
		value, kind, _ := strings.Cut(rest, "|")
		mu.Lock()
		defer mu.Unlock()
		if names[name] == nil {
			names[name] = map[string]bool{}
		}
		names[name][kind] = true
		var n uint64
		if _, err := fmt.Sscan(value, &n); err == nil && strings.HasPrefix(kind, "c") {
			sums[name+"|"+kind] += n
		} else if strings.HasPrefix(kind, "ms") {
			sums[name+"|"+kind]++
		}
	}
	read := func(in io.Reader) {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			take(lines.Text())
		}
	}
	var addr net.Addr
	if network == "tcp" {
		ln := servertest.Listen(t)
		addr = ln.Addr()
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go read(conn)
			}
		}()
	} else {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pc.Close() })
		addr = pc.LocalAddr()
		go func() {
			buf := make([]byte, 1<<16)
			for {
				n, _, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				read(bytes.NewReader(buf[:n]))
			}
		}()
	}
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return port, func() []string {
		mu.Lock()
		defer mu.Unlock()
		var all []string
		for name, kinds := range names {
			for kind := range kinds {
				line := name + "|" + kind
				if n, ok := sums[line]; ok && !strings.Contains(name, ".go.") {
					line = fmt.Sprint(line, " ", n)
				}
				all = append(all, line)
			}
		}
		return all
	}
}

func TestReferenceStatistics(t *testing.T) {
	memcached := fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	if os.Getenv("WEIR_REFERENCE") != "" {
		servertest.Memcached(t, memcached)
	}
	for name, tt := range map[string]struct {
		network string
		env     []string
	}{
		"statsd":   {"tcp", []string{"USE_STATSD=true", "EXTRA_TAGS=env:prod,region:a.b,empty:"}},
		"memcache": {"tcp", []string{"USE_STATSD=true", "BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + memcached}},
		"udp":      {"udp", []string{"USE_STATSD=true", "STATSD_PROTOCOL=udp"}},
		"dogstatsd": {"udp", []string{"USE_DOG_STATSD=true", "EXTRA_TAGS=env:prod", "USE_DOG_STATSD_MOGRIFIERS=DOMAIN,CALL",
			`DOG_STATSD_MOGRIFIER_DOMAIN_PATTERN=^ratelimit\.service\.rate_limit\.([^.]*)\.(.*)\.([^.]*)$`,
			"DOG_STATSD_MOGRIFIER_DOMAIN_NAME=rate_limit.$3", "DOG_STATSD_MOGRIFIER_DOMAIN_TAGS=key:$2",
			`DOG_STATSD_MOGRIFIER_CALL_PATTERN=^ratelimit_server\.(.*)\.(.*)$`, "DOG_STATSD_MOGRIFIER_CALL_NAME=server.$2", "DOG_STATSD_MOGRIFIER_CALL_TAGS=method:$1"}},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := both(t, tt.env, func(t *testing.T, bin, root string, env []string) []string {
				port, told := collect(t, tt.network)
				env = append(env, "USE_PROMETHEUS=false", "STATSD_HOST=127.0.0.1", "STATSD_PORT="+port, "CACHE_KEY_PREFIX="+filepath.Base(bin))
				n := start(t, bin, env...)
				r := &transcript{t: t, n: n, conn: n.dial()}
				for range 5 {
					r.ask("", request("shop", "user=ann", "user=vip", "ip=10.0.0.1", "path=/a/b,method=GET", "shadow=x"))
					time.Sleep(50 * time.Millisecond) // what is counted after the answer
				}
				r.ask("", request("else.where:a|b", "user=ann"))
				r.ask("", request("", "user=ann"))
				r.health("ratelimit")
				time.Sleep(2500 * time.Millisecond) // its buffers go out once a second
				return told()
			})
			unexplained(t, here, there, map[string]string{
				`redis_pool\.cx_total`:               "the connections are fewer",
				`^ratelimit\.go\.(numGC|pauseTotal)`: "this program collects garbage less often",
				`^datadog\.dogstatsd\.client\.`:      "of the client library itself",
			})
		})
	}
}
