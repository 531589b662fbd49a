package envoy

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// pair is the reference and a service of ours that are asked the same.
type pair struct {
	t      *testing.T
	ref    *reference
	ours   *Service
	client rlsv3.RateLimitServiceClient
	http   string
	stats  *stats.Store
	sums   *statsd
	merge  bool
	// memcached is ours, if that is compared.
	memcached *counter.Memcached
	// servers are the memcached of the reference, and ours.
	servers [2]*bufio.ReadWriter
	// lost counts metadata that the reference loses.
	lost, asked int
	// crossed are the cases that were cut short, as a new second came between a
	// request and its twin. Their domains begin with these names.
	crossed []string
}

// way is how both are set up.
type way struct {
	name  string
	env   []string
	opt   Options
	merge bool
	// memory: ours keeps counters itself. memcached: both keep them there.
	memory, memcached bool
}

var ways = []way{
	{name: "plain"},
	{name: "memory", memory: true, env: []string{"LIMIT_RESPONSE_HEADERS_ENABLED=true"}, opt: Options{Modes: Modes{Headers: Headers{Enabled: true}}}},
	{name: "told", env: []string{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_LIMIT_HEADER=x-limit", "RESPONSE_DYNAMIC_METADATA=true", "MERGE_DOMAIN_CONFIG=true", "CACHE_KEY_PREFIX=pre_"},
		opt: Options{KeyPrefix: "pre_", Modes: Modes{DynamicMetadata: true, Headers: Headers{Enabled: true, Limit: "x-limit"}}}, merge: true},
	{name: "quota", env: []string{"QUOTA_MODE=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "NEAR_LIMIT_RATIO=0.33"},
		opt: Options{NearLimitRatio: 0.33, Modes: Modes{Quota: true, Headers: Headers{Enabled: true}}}},
	{name: "shadow", env: []string{"SHADOW_MODE=true", "RESPONSE_DYNAMIC_METADATA=true"}, opt: Options{Modes: Modes{Shadow: true, DynamicMetadata: true}}},
	{name: "stop", env: []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true"}, opt: Options{StopIncrementWhenOver: true, Modes: Modes{Headers: Headers{Enabled: true}}}},
	{name: "cache", env: []string{"LOCAL_CACHE_SIZE_IN_BYTES=1000000"}, opt: Options{LocalCacheBytes: 1000000}},
	{name: "cacheandstop", env: []string{"LOCAL_CACHE_SIZE_IN_BYTES=1000000", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"}, opt: Options{LocalCacheBytes: 1000000, StopIncrementWhenOver: true}},
	{name: "memcached", memcached: true, env: []string{"BACKEND_TYPE=memcache", "EXPIRATION_JITTER_MAX_SECONDS=0", "LOCAL_CACHE_SIZE_IN_BYTES=1000000", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"},
		opt: Options{LocalCacheBytes: 1000000, StopIncrementWhenOver: true}},
}

// TestDifferential asks envoyproxy/ratelimit and this service the same, and wants
// the same answers, counters and statistics. WEIR_REFERENCE names the binary,
// WEIR_CASES how many sets of rules are tried for each way (20 without), WEIR_SEED
// where to begin.
func TestDifferential(t *testing.T) {
	if os.Getenv("WEIR_REFERENCE") == "" {
		t.Skip("WEIR_REFERENCE names no binary of envoyproxy/ratelimit to compare with")
	}
	cases, seed := setting(t, "WEIR_CASES", 20), setting(t, "WEIR_SEED", 1)
	redis := servertest.Redis(t)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			p := newPair(t, w, redis)
			for i := range cases {
				if t.Failed() {
					break
				}
				p.compare(uint64(seed+i), redis, w)
			}
			p.compareStats()
			t.Logf("%d requests; %d cases were cut short by a new second; the reference lost metadata %d times", p.asked, len(p.crossed), p.lost)
			if len(p.crossed) > cases/4+1 {
				t.Error("too many were")
			}
		})
	}
}

func setting(t *testing.T, name string, zero int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return zero
	}
	return n
}

func newPair(t *testing.T, w way, redis *servertest.RedisServer) *pair {
	p := &pair{t: t, merge: w.merge, sums: &statsd{sums: map[string]uint64{}}}
	redis.Do(t, "FLUSHALL")
	opt, env := w.opt, w.env
	if w.memcached {
		addr, _ := servertest.Memcached(t, "")
		env = append(slices.Clone(env), "MEMCACHE_HOST_PORT="+addr)
		p.servers[0] = dial(t, addr)
		addr, _ = servertest.Memcached(t, "")
		p.servers[1] = dial(t, addr)
		store, err := counter.OpenMemcached(t.Context(), counter.MemcachedOptions{Servers: []string{addr}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		opt.Counters, p.memcached = store, store
	}
	p.ref = startReference(t, redis.Addr, env...)
	p.stats = stats.New(stats.Options{Sink: p.sums, MaxKeys: 1 << 20})
	opt.Stats = p.stats
	if !w.memory && !w.memcached {
		store, err := counter.OpenRedis(t.Context(), counter.RedisOptions{Server: counter.RedisServer{URL: "redis://" + redis.Addr + "/1"}, JitterSeconds: 300})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		opt.Counters = store
	}
	p.ours = New(opt)
	ln := servertest.Listen(t)
	server := grpc.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, p.ours)
	go server.Serve(ln)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p.client = rlsv3.NewRateLimitServiceClient(conn)
	web := httptest.NewServer(p.ours.JSON())
	t.Cleanup(web.Close)
	p.http = web.URL
	return p
}

// compare loads a set of rules into both and asks both the same.
func (p *pair) compare(seed uint64, redis *servertest.RedisServer, w way) {
	t := p.t
	t.Helper()
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), wide: seed%2 == 0, oneLine: true, atMost: int(seed % 12)}
	if seed%3 == 0 {
		g.flaws = 15
	}
	// The reference keeps nothing there for longer than 30 days, and some things for
	// less than a second.
	g.between = w.memcached
	for range 2 {
		files := g.files(fmt.Sprint(seed))
		theirs := p.ref.load(t, files)
		var mine string
		if err := p.ours.LoadFiles(files, p.merge); err != nil {
			mine = err.Error()
		}
		if !sameError(theirs, mine, files, p.merge) {
			t.Fatalf("seed %d: on load\nreference: %s\nhere:      %s\n%s", seed, theirs, mine, show(files))
		}
		if mine != "" {
			g.flaws = 0
			continue
		}
		p.compareDumps(seed, files)
		for i := range 60 {
			if !p.ask(fmt.Sprintf("seed %d request %d", seed, i), g, files) {
				p.crossed = append(p.crossed, fmt.Sprint("d", seed))
				redis.Do(t, "FLUSHALL")
				return
			}
		}
		if !w.memory && !w.memcached {
			p.compareCounters(redis, seed, files)
		}
		// Once more, with counters that are left from before.
	}
}

func show(files []File) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "== %s\n%s", f.Name, f.Content)
	}
	return b.String()
}

// sameError reports whether errors of loading are the same. Where a file has
// several faults, the reference tells any of them: its blocks have no order, and
// nor have its files.
func sameError(theirs, mine string, files []File, merge bool) bool {
	if theirs == mine || theirs == "" || mine == "" {
		return theirs == mine
	}
	nbsp := strings.NewReplacer("\u00a0", " ")
	if nbsp.Replace(theirs) == nbsp.Replace(mine) {
		return true
	}
	possible := loadErrors(files, merge)
	return possible[theirs] && possible[mine]
}

func (p *pair) compareDumps(seed uint64, files []File) {
	p.t.Helper()
	_, theirs := fetch(p.t, "GET", p.ref.debug+"/rlconfig", "")
	var b strings.Builder
	if err := p.ours.Dump(&b); err != nil {
		p.t.Fatal(err)
	}
	order := func(s string) []string { l := strings.SplitAfter(s, "\n"); slices.Sort(l); return l }
	if !slices.Equal(order(theirs), order(b.String())) {
		p.t.Fatalf("seed %d: /rlconfig\nreference:\n%s\nhere:\n%s\n%s", seed, theirs, b.String(), show(files))
	}
}

// ask asks both the same. It reports whether that was in one second: else neither
// counters of seconds nor resets can be compared.
func (p *pair) ask(what string, g *generator, files []File) bool {
	t := p.t
	t.Helper()
	req := g.request()
	p.asked++
	if left := time.Until(time.Now().Truncate(time.Second).Add(time.Second)); left < 30*time.Millisecond {
		<-time.After(left)
	}
	before := time.Now().Unix()
	over := p.overGRPC
	if g.chance(20) {
		over = p.overHTTP
	}
	a, b := over(p.ref.client, p.ref.http+"/json", req), over(p.client, p.http, req)
	if p.memcached != nil {
		// What was told is counted after it.
		p.memcached.WaitForAdds()
	}
	if !p.counted() || time.Now().Unix() != before {
		return false
	}
	if p.loses(a, b, req) {
		p.lost++
	} else if a.text != b.text {
		t.Fatalf("%s: %v\nreference: %s\nhere:      %s\n%s", what, prototext.Format(req), a.text, b.text, show(files))
	}
	return true
}

// counted waits until both have counted in memcached what they told. It is false if
// one counts what the other does not: where two requests meet, both may make a
// counter, and one of them tries again.
func (p *pair) counted() bool {
	if p.servers[0] == nil {
		return true
	}
	p.t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		theirs, mine := changesOf(p.t, p.servers[0]), changesOf(p.t, p.servers[1])
		if theirs == mine && p.memcached != nil {
			return true // ours is done
		}
		<-time.After(20 * time.Millisecond)
		if theirs == mine && changesOf(p.t, p.servers[0]) == theirs && changesOf(p.t, p.servers[1]) == mine {
			return true
		}
	}
	return false
}

func dial(t *testing.T, addr string) *bufio.ReadWriter {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
}

// changesOf returns how often a memcached was told to change something.
func changesOf(t *testing.T, server *bufio.ReadWriter) (n uint64) {
	t.Helper()
	server.WriteString("stats\r\n")
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := server.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(line)
		switch {
		case len(f) == 3 && (f[1] == "cmd_set" || f[1] == "incr_misses" || f[1] == "incr_hits"):
			n += number(t, f[2])
		case len(f) == 1:
			return n
		}
	}
}

// said is what a service answered.
type said struct {
	text string
	resp *rlsv3.RateLimitResponse
}

func (p *pair) overGRPC(c rlsv3.RateLimitServiceClient, _ string, req *rlsv3.RateLimitRequest) said {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	return answered(c.ShouldRateLimit(ctx, req))
}

func answered(resp *rlsv3.RateLimitResponse, err error) said {
	if err != nil {
		s := status.Convert(err)
		return said{text: fmt.Sprintf("%s: %s", s.Code(), s.Message())}
	}
	return said{canonical(resp), resp}
}

func (p *pair) overHTTP(_ rlsv3.RateLimitServiceClient, url string, req *rlsv3.RateLimitRequest) said {
	body, err := protojson.MarshalOptions{UseProtoNames: req.HitsAddend%2 == 0, UseEnumNumbers: true}.Marshal(req)
	if err != nil {
		p.t.Fatal(err)
	}
	code, text := fetch(p.t, "POST", url, string(body))
	resp := &rlsv3.RateLimitResponse{}
	if protojson.Unmarshal([]byte(text), resp) != nil {
		if code == 500 {
			code = 400 // The store's errors are told apart here.
			text = "Bad Request\n"
		}
		return said{text: fmt.Sprint(code, " ", text)}
	}
	return said{fmt.Sprint(code, " ", canonical(resp)), resp}
}

var limitText = regexp.MustCompile(`  +`)

// canonical writes a response in one way: text forms of protobuf have spaces at
// random.
func canonical(resp *rlsv3.RateLimitResponse) string {
	r := proto.Clone(resp).(*rlsv3.RateLimitResponse)
	for _, d := range r.GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues() {
		if l := d.GetStructValue().GetFields()["limit"]; l != nil {
			d.GetStructValue().Fields["limit"] = structpb.NewStringValue(limitText.ReplaceAllString(l.GetStringValue(), " "))
		}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		panic(err)
	}
	return limitText.ReplaceAllString(prototext.MarshalOptions{}.Format(r), " ") + fmt.Sprintf(" (%x)", b)
}

// loses reports whether a differs from b in nothing but that the reference has
// lost the metadata of rules whose statistics have another name than they.
func (p *pair) loses(a, b said, req *rlsv3.RateLimitRequest) bool {
	if a.text == b.text || a.resp == nil || b.resp == nil || b.resp.DynamicMetadata == nil {
		return false
	}
	domain := p.ours.rules.Load().domains[req.Domain]
	want := map[string]*structpb.Value{}
	for i, d := range req.Descriptors {
		f := matcher{stats: p.stats, domain: domain, now: 1, ratio: 1}
		m := match{}
		if f.fillMatch(&m, d) != nil || m.rule == nil || m.rule.unlimited || d.Limit != nil || b.resp.Statuses[i].CurrentLimit == nil ||
			b.resp.Statuses[i].Code != rlsv3.RateLimitResponse_OK {
			continue
		}
		if m.stats == m.rule.stats && !m.rule.detailed || m.rule.detailed && p.hasKids(domain, d) {
			want = mergeMetadata(want, m.rule.metadata.GetFields())
		}
	}
	c := proto.Clone(b.resp).(*rlsv3.RateLimitResponse)
	delete(c.DynamicMetadata.Fields, "metadata")
	if len(want) > 0 {
		c.DynamicMetadata.Fields["metadata"] = structpb.NewStructValue(&structpb.Struct{Fields: want})
	}
	return canonical(c) == canonical(a.resp)
}

// hasKids reports whether rules lie below the one for d.
func (p *pair) hasKids(domain *domain, d descriptorMessage) bool {
	l := &domain.root
	for _, e := range d.GetEntries() {
		n, _ := l.findNode([]byte(e.Key + "_" + e.Value))
		if n == nil {
			n = l.nodes[e.Key]
		}
		l = &n.kids
	}
	return len(l.nodes) > 0
}

// compareCounters compares what both have put into Redis.
func (p *pair) compareCounters(redis *servertest.RedisServer, seed uint64, files []File) {
	p.t.Helper()
	read := func(db string) map[string]string {
		m := map[string]string{}
		all, err := redis.Try("EVAL", `redis.call('SELECT', ARGV[1]) local t = {} for _, k in ipairs(redis.call('KEYS', '*')) do
			t[#t+1] = k t[#t+1] = redis.call('GET', k) if redis.call('TTL', k) < 0 then t[#t] = t[#t] .. ' for ever' end end return t`, "0", db)
		if err != nil {
			p.t.Fatal(err)
		}
		for kv := range slices.Chunk(all.([]any), 2) {
			// Those of seconds may be gone by now.
			k := kv[0].(string)
			if start, err := strconv.Atoi(k[strings.LastIndexByte(k, '_')+1:]); err == nil && start%60 != 0 {
				continue
			}
			m[k] = kv[1].(string)
		}
		return m
	}
	theirs, mine := read("0"), read("1")
	redis.Do(p.t, "FLUSHALL")
	if !maps.Equal(theirs, mine) {
		for k, v := range theirs {
			if mine[k] != v {
				p.t.Errorf("seed %d: counter %q: reference %q, here %q", seed, k, v, mine[k])
			}
		}
		for k, v := range mine {
			if _, ok := theirs[k]; !ok {
				p.t.Errorf("seed %d: counter %q: %q, and none in the reference", seed, k, v)
			}
		}
		p.t.Log(show(files))
	}
}

// compareStats compares all that both have counted.
func (p *pair) compareStats() {
	if p.t.Failed() {
		return
	}
	const prefix = "ratelimit.service."
	p.stats.Flush()
	mine := p.sums.under(prefix)
	var theirs map[string]uint64
	same := func() bool {
		theirs = p.ref.stats.under(prefix)
		// The reference was asked before, to see whether it is there.
		if name := prefix + "call.should_rate_limit.service_error"; theirs[name] > 0 {
			if theirs[name]--; theirs[name] == 0 {
				delete(theirs, name)
			}
		}
		for _, name := range []string{"config_load_success", "config_load_error"} {
			delete(theirs, prefix+name)
			delete(mine, prefix+name)
		}
		// Keys of more than a kibibyte share one name here.
		long := func(name string, _ uint64) bool { return len(name) > 1024 || strings.Contains(name, ".overflow.") }
		maps.DeleteFunc(theirs, long)
		maps.DeleteFunc(mine, long)
		for _, of := range p.crossed {
			cut := regexp.MustCompile(`^ratelimit\.service\.(rate_limit\.` + of + `\D|global_shadow_mode$)`)
			gone := func(name string, _ uint64) bool { return cut.MatchString(name) }
			maps.DeleteFunc(theirs, gone)
			maps.DeleteFunc(mine, gone)
		}
		return maps.Equal(theirs, mine)
	}
	end := time.Now().Add(20 * time.Second)
	for !same() && time.Now().Before(end) {
		<-time.After(50 * time.Millisecond)
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if mine[name] != theirs[name] {
			p.t.Errorf("%s: reference %d, here %d", name, theirs[name], mine[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if _, ok := theirs[name]; !ok {
			p.t.Errorf("%s: reference none, here %d", name, mine[name])
		}
	}
}
