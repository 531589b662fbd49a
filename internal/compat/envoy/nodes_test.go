package envoy

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// nodes is the reference and this program, run alike: with random settings, each
// with stores of its own, asked the same.
type nodes struct {
	// The pair's service is in this process and is not asked: it tells what the
	// reference loses.
	pair
	node   *reference
	jitter int
	// prom are the addresses of the series of the reference, and ours.
	prom [2]string
	// redis are the stores of the reference and ours: for all, and for seconds.
	redis [2][]*servertest.RedisServer
}

// sets is how many sets of rules are tried with the same settings.
const sets = 6

// TestDifferentialNodes compares the whole programs: answers over gRPC and HTTP,
// the rules as they are loaded and shown, health, what lies in the stores, for how
// long, and the Prometheus series. WEIR_REFERENCE, WEIR_CASES and WEIR_SEED are as
// in TestDifferential; a case is one set of settings, and six of rules.
func TestDifferentialNodes(t *testing.T) {
	program := compared(t)
	var redis [2][]*servertest.RedisServer
	var servers [2]*bufio.ReadWriter
	var memcached [2]string
	for i := range redis {
		redis[i] = []*servertest.RedisServer{servertest.Redis(t), servertest.Redis(t)}
		memcached[i], _ = servertest.Memcached(t, "")
		servers[i] = dial(t, memcached[i])
	}
	cases, seed := setting(t, "WEIR_CASES", 20), setting(t, "WEIR_SEED", 1)
	asked, crossed, lost, failed := 0, 0, 0, 0
	for i := range cases {
		if !t.Run(fmt.Sprint(seed+i), func(t *testing.T) {
			g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed+i), 11)), wide: true, brief: true, atMost: 12}
			n := &nodes{redis: redis}
			n.t = t
			env, useMemcached := g.settings(n)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("settings: %q", env)
				}
			})
			for i := range redis {
				for _, r := range redis[i] {
					r.Do(t, "FLUSHALL")
				}
				fmt.Fprint(servers[i], "flush_all\r\n")
				if err := servers[i].Flush(); err != nil {
					t.Fatal(err)
				}
				if _, err := servers[i].ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if useMemcached {
				n.servers = servers
			}
			n.start(t, program, func(i int) []string {
				n.prom[i] = fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
				return append([]string{
					"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis[i][0].Addr, "REDIS_PERSECOND_SOCKET_TYPE=tcp", "REDIS_PERSECOND_URL=" + redis[i][1].Addr,
					"MEMCACHE_HOST_PORT=" + memcached[i], "USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=" + n.prom[i], "WEIR_STATS_MAX_KEYS=1000000",
				}, env...)
			})
			n.play(g, uint64(seed+i), useMemcached)
			n.compareSeries()
			asked, crossed, lost = asked+n.asked, crossed+len(n.crossed), lost+n.lost
		}) {
			failed++
		}
		if failed > 3 {
			break
		}
	}
	t.Logf("%d requests; %d sets of rules were cut short by a new second; the reference lost metadata %d times", asked, crossed, lost)
	if crossed > cases*sets/4+1 {
		t.Error("too many were")
	}
}

// start starts the reference, the program, and a service to know by how they stand.
func (n *nodes) start(t *testing.T, program string, env func(i int) []string) {
	n.ref = startNode(t, os.Getenv("WEIR_REFERENCE"), env(0)...)
	n.node = startNode(t, program, env(1)...)
	n.client, n.http = n.node.client, n.node.http+"/json"
	n.stats = stats.New(stats.Options{MaxKeys: 1 << 20})
	n.ours = New(Options{Stats: n.stats})
}

// compared builds the program that is compared with the reference.
func compared(t *testing.T) string {
	if os.Getenv("WEIR_REFERENCE") == "" {
		t.Skip("WEIR_REFERENCE names no binary of envoyproxy/ratelimit to compare with")
	}
	bin, clean, err := servertest.Command()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clean)
	program := filepath.Join(filepath.Dir(bin), "ratelimit")
	if err := os.Symlink(bin, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// settings draws settings.
func (g *generator) settings(n *nodes) (env []string, memcached bool) {
	set := func(name string, percent int, values ...string) (value string) {
		if g.chance(percent) {
			value = pick(g, values...)
			env = append(env, name+"="+value)
		}
		return value
	}
	set("RESPONSE_DYNAMIC_METADATA", 50, "true", "1", "false")
	set("LIMIT_RESPONSE_HEADERS_ENABLED", 60, "true", "T")
	set("LIMIT_LIMIT_HEADER", 20, "X-Limit", "x limit", "é", "RateLimit-Reset")
	set("LIMIT_REMAINING_HEADER", 20, "x-remaining", ":status")
	set("LIMIT_RESET_HEADER", 20, "x-reset", "X_RESET")
	set("NEAR_LIMIT_RATIO", 40, "0", "0.1", "0.33", "0.5", "0.999", "1", "1e-9")
	set("LOCAL_CACHE_SIZE_IN_BYTES", 30, "1", "600000", "5000000")
	set("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", 30, "true")
	set("SHADOW_MODE", 15, "true")
	set("QUOTA_MODE", 20, "true")
	set("CACHE_KEY_PREFIX", 30, "p:", "é_", "_", "a b")
	set("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", 30, "true")
	set("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", 10, "true")
	set("REDIS_PIPELINE_LIMIT", 10, "1", "100")
	set("REDIS_PIPELINE_WINDOW", 10, "1ms", "75us")
	set("REDIS_POOL_SIZE", 10, "1", "3")
	n.jitter = 300
	if j := set("EXPIRATION_JITTER_MAX_SECONDS", 60, "0", "1", "2", "1000"); j != "" {
		n.jitter = int(number(n.t, j))
	}
	n.merge = set("MERGE_DOMAIN_CONFIG", 40, "true", "false") == "true"
	if memcached = set("BACKEND_TYPE", 20, "memcache") != ""; memcached {
		g.between = true
		if n.jitter > 2 {
			// A month and more is too long for it.
			n.jitter = 0
			env = append(env, "EXPIRATION_JITTER_MAX_SECONDS=0")
		}
	} else {
		set("REDIS_PERSECOND", 35, "true")
	}
	return env, memcached
}

// play loads sets of rules into both, and asks both.
func (n *nodes) play(g *generator, seed uint64, memcached bool) {
	t := n.t
	for set := range sets {
		g.flaws = pick(g, 0, 0, 8, 20)
		tag := fmt.Sprint(seed, "s", set, "e")
		files := g.files(tag)
		theirs, mine := n.ref.load(t, files), n.node.load(t, files)
		if !sameError(theirs, mine, files, n.merge) {
			t.Fatalf("set %d: on load\nreference: %s\nhere:      %s\n%s", set, theirs, mine, show(files))
		}
		if err := n.ours.LoadFiles(files, n.merge); (err == nil) != (mine == "") {
			t.Fatalf("set %d: the program says %q, the service %v", set, mine, err)
		}
		n.compareShown(files)
		for i := range 40 {
			if g.chance(8) {
				if n.post(g, files) {
					continue
				}
			} else if n.ask(fmt.Sprintf("set %d request %d", set, i), g, files) {
				continue
			}
			n.crossed = append(n.crossed, "d"+tag)
			n.flush()
			break
		}
		if !memcached {
			n.compareStores(files)
		}
	}
}

// flush empties the stores.
func (n *nodes) flush() {
	for _, side := range n.redis {
		for _, r := range side {
			r.Do(n.t, "FLUSHALL")
		}
	}
}

// compareShown compares what both show of their rules and of their health.
func (n *nodes) compareShown(files []File) {
	t := n.t
	t.Helper()
	var said [2]string
	for i, r := range []*reference{n.ref, n.node} {
		_, rules := fetch(t, "GET", r.debug+"/rlconfig", "")
		lines := strings.SplitAfter(rules, "\n")
		slices.Sort(lines)
		code, health := fetch(t, "GET", r.http+"/healthcheck", "")
		said[i] = strings.Join(lines, "")
		if n.servers[0] != nil {
			continue // the reference waits for a Redis then, which it does not use
		}
		said[i] += fmt.Sprint(code, health)
		for _, service := range []string{"", "ratelimit", "other"} {
			h, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			said[i] += fmt.Sprint(" ", h.GetStatus(), " ", status.Code(err))
		}
	}
	if said[0] != said[1] {
		t.Fatalf("rules and health\nreference:\n%s\nhere:\n%s\n%s", said[0], said[1], show(files))
	}
}

// post sends a body that may be none to /json. It reports what ask does.
func (n *nodes) post(g *generator, files []File) bool {
	t := n.t
	t.Helper()
	body, ok := g.body()
	if !ok {
		return true
	}
	method := pick(g, "POST", "POST", "PUT", "GET", "DELETE", "PATCH", "OPTIONS", "HEAD", "FOO")
	n.asked++
	var said [2]string
	if left := time.Until(time.Now().Truncate(time.Second).Add(time.Second)); left < 30*time.Millisecond {
		<-time.After(left)
	}
	before := time.Now().Unix()
	for i, at := range []string{n.ref.http, n.node.http} {
		req, err := http.NewRequestWithContext(t.Context(), method, at+"/json"+pick(g, "", "?a=b"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%s %q: %v", method, body, err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		text, decoded := string(b), &rlsv3.RateLimitResponse{}
		if resp.StatusCode != 400 && protojson.Unmarshal(b, decoded) == nil {
			decoded.DynamicMetadata = nil // compared elsewhere: the reference loses some of it
			text = canonical(decoded)
			resp.Header.Del("Content-Length") // protojson writes a space or two
		}
		code := resp.StatusCode
		if i == 1 && code == 500 && strings.HasPrefix(said[0], "400 ") {
			code, text = 400, strings.Replace(text, "Internal Server Error", "Bad Request", 1) // the store's errors are told apart here
		}
		if code >= 400 || method == "HEAD" {
			resp.Header.Del("Content-Length")
		}
		resp.Header.Del("Date")
		said[i] = fmt.Sprint(code, " ", resp.Header, " ", text)
	}
	if !n.counted() || time.Now().Unix() != before {
		return false
	}
	if said[0] != said[1] {
		t.Fatalf("%s %q\nreference: %s\nhere:      %s\n%s", method, body, said[0], said[1], show(files))
	}
	return true
}

// body makes JSON, some of which is no request. It is false for what the
// reference dies of, or cannot count.
func (g *generator) body() (string, bool) {
	b, err := protojson.MarshalOptions{UseProtoNames: g.chance(50), UseEnumNumbers: g.chance(50)}.Marshal(g.request())
	if err != nil {
		panic(err)
	}
	body := string(b)
	switch g.IntN(8) {
	case 0:
		at := g.IntN(len(body) + 1)
		body = body[:at] + pick(g, "", " ", ",", "}", "{", "\"", "null", "\x00", "\xff", "é", "1", "-", "1e2", "\\u0000", "/**/") + body[at:]
	case 1:
		body = body[:g.IntN(len(body)+1)]
	case 2:
		body = pick(g, "", " ", "null", "[]", "{}", "5", "\ufeff"+body, body+body, body+" \n\t", "["+body+"]", `{"domain":null,"descriptors":null}`, `{"domain":"a","domain":"b"}`)
	case 3:
		body = strings.Replace(body, `"domain"`, pick(g, `"Domain"`, `"unknown":1,"domain"`, `"domain":"x","domain"`, `"hitsAddend":"5","domain"`, `"hitsAddend":5.0,"domain"`,
			`"hitsAddend":5e0,"domain"`, `"hitsAddend":-1,"domain"`, `"hits_addend":4294967296,"domain"`, `"hitsAddend":null,"domain"`, `"hitsAddend":true,"domain"`, `"@type":"x","domain"`), 1)
	case 4:
		body = strings.Replace(body, `"entries"`, pick(g, `"hitsAddend":"7","entries"`, `"hitsAddend":{"value":7},"entries"`, `"limit":null,"entries"`, `"limit":{"requestsPerUnit":3,"unit":"DAY"},"entries"`,
			`"limit":{"requestsPerUnit":3,"unit":"day"},"entries"`, `"limit":{"requests_per_unit":"3","unit":4},"entries"`, `"entries":[],"entries"`, `"entries":null,"limit":null,"x"`), 1)
	}
	var req rlsv3.RateLimitRequest
	if protojson.Unmarshal([]byte(body), &req) == nil {
		for _, d := range req.Descriptors {
			if d.Limit != nil && (periodOf(int32(d.Limit.Unit)) == 0 || d.Limit.UnitMultiplier != nil) || d.IsNegativeHits || d.HitsAddend.GetValue() > math.MaxInt64 {
				return "", false
			}
		}
	}
	return body, true
}

// counted is a counter in a store.
type counted struct {
	value string
	ttl   int
}

// compareStores compares what both have put into Redis.
func (n *nodes) compareStores(files []File) {
	t := n.t
	t.Helper()
	for which, what := range []string{"the store", "the store of seconds"} {
		theirs, mine := inRedis(t, n.redis[0][which]), inRedis(t, n.redis[1][which])
		for k := range mine {
			if _, ok := theirs[k]; !ok && !ofSeconds(k) {
				t.Errorf("%s: counter %q: reference none, here %v", what, k, mine[k])
			}
		}
		for k, a := range theirs {
			b, ok := mine[k]
			if !ok && ofSeconds(k) {
				continue // gone by now
			}
			if !ok || a.value != b.value || max(a.ttl-b.ttl, b.ttl-a.ttl) > n.jitter+1 {
				t.Errorf("%s: counter %q: reference %v, here %v", what, k, a, b)
			}
		}
	}
	if t.Failed() {
		t.Log(show(files))
	}
}

// ofSeconds reports whether a counter may be one of a second.
func ofSeconds(key string) bool {
	start, err := strconv.Atoi(key[strings.LastIndexByte(key, '_')+1:])
	return err == nil && start%60 != 0
}

func inRedis(t *testing.T, r *servertest.RedisServer) map[string]counted {
	all := r.Do(t, "EVAL", `local t = {} for _, k in ipairs(redis.call('KEYS', '*')) do
		t[#t+1] = k t[#t+1] = redis.call('GET', k) t[#t+1] = tostring(redis.call('TTL', k)) end return t`, "0")
	m := map[string]counted{}
	for c := range slices.Chunk(all.([]any), 3) {
		ttl, err := strconv.Atoi(c[2].(string))
		if err != nil {
			t.Fatal(err)
		}
		m[c[0].(string)] = counted{c[1].(string), ttl}
	}
	return m
}

var (
	// nameOnly are series whose values differ between two runs of one program, or
	// are said in docs/how-to/envoy-ratelimit.md to differ.
	nameOnly = regexp.MustCompile(`^(ratelimit_go_|ratelimit_redis_|ratelimit_service_response_time_seconds|statsd_exporter_|ratelimit_localcache_(averageAccessTime|evacuateCount|overwriteCount|expiredCount|entryCount))`)
	// elsewhere are series that are of the client libraries.
	elsewhere = regexp.MustCompile(`^(# (HELP|TYPE) )?(go_|process_|promhttp_)`)
)

// seriesOf returns the series at addr and their values.
func (n *nodes) seriesOf(addr string) map[string]string {
	_, text := fetch(n.t, "GET", "http://"+addr+"/metrics", "")
	m := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		at := strings.LastIndexByte(line, ' ')
		name, value := line[:at], line[at+1:]
		if strings.HasPrefix(line, "#") {
			name, value = line, ""
		}
		gone := elsewhere.MatchString(name) || strings.Contains(name, "_bucket{")
		for _, of := range n.crossed {
			gone = gone || strings.Contains(name, `domain="`+of) || strings.Contains(name, "global_shadow_mode") || strings.HasPrefix(name, "ratelimit_localcache") ||
				strings.Contains(name, "ratelimit_memcache") || strings.Contains(name, "_domain_not_found") || strings.Contains(name, "rate_limit_"+of)
		}
		if gone {
			continue
		}
		if nameOnly.MatchString(name) {
			value = "any"
		} else if v, err := strconv.ParseFloat(value, 64); err == nil && v > 1<<60 {
			// Below zero, and so often 2^64 as there were flushes.
			value = "far too much"
		}
		m[name] = value
	}
	return m
}

// compareSeries compares the Prometheus series.
func (n *nodes) compareSeries() {
	if n.t.Failed() {
		return
	}
	var theirs, mine map[string]string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		theirs, mine = n.seriesOf(n.prom[0]), n.seriesOf(n.prom[1])
		if maps.Equal(theirs, mine) {
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if v, ok := mine[name]; !ok || v != theirs[name] {
			n.t.Errorf("%s: reference %q, here %q", name, theirs[name], v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if _, ok := theirs[name]; !ok {
			n.t.Errorf("%s: reference none, here %q", name, mine[name])
		}
	}
}
