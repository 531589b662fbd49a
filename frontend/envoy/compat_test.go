package envoy

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/frontend/envoy/counter"
	"github.com/weirlimit/weir/frontend/envoy/stats"
	"github.com/weirlimit/weir/internal/servertest"
)

var update = flag.Bool("update", false, "write the answers into the files of testdata")

// system is what a file of testdata is played on.
type system interface {
	load(t *testing.T, files []File, merge bool) string
	ask(t *testing.T, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)
	json(t *testing.T, body string) (int, string)
	dump(t *testing.T) string
	counters(t *testing.T) map[string]uint64
	stats(t *testing.T) map[string]uint64
}

// TestCompat plays the files of testdata/compat: what a service is asked, each
// followed by its answers. In the files are:
//
//	set NAME=VALUE      a variable of envoyproxy/ratelimit, before anything else
//	here only           the reference is not asked: it cannot, or answers otherwise
//	now SECONDS         the clock, from 1700000000 on
//	load [merge] FILE.. load rules
//	ask DOMAIN [hits=N] DESCRIPTOR..
//	                    a descriptor is KEY=VALUE,.. and may have behind it
//	                    @COUNT/UNIT[xN] (an override), +N (hits_addend), -N (hits
//	                    given back); - alone has no entries; (Nx) before the domain repeats
//	json TEXT           a body for /json
//	dump                /rlconfig
//	counters            the counters that changed
//	stats               the statistics that changed
//
// Where WEIR_REFERENCE names a binary, envoyproxy/ratelimit is asked the same.
func TestCompat(t *testing.T) {
	files, err := filepath.Glob("testdata/compat/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t, archive: archive}
			s.read()
			h := newHere(t, s)
			s.system, s.now = h, h.setNow
			got := s.play()
			if *update {
				archive.Comment = []byte(got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want := string(archive.Comment); got != want {
				t.Errorf("%s", difference(want, got))
			}
			if s.hereOnly || os.Getenv("WEIR_REFERENCE") == "" {
				return
			}
			s.system, s.now = newThere(t, s), nil
			if theirs, mine := timeless(s.play()), timeless(got); theirs != mine {
				t.Errorf("the reference differs:\n%s", difference(theirs, mine))
			}
		})
	}
}

// times is what the clock makes of an answer, and which of two files is at fault:
// the reference reads them in no order.
var times = regexp.MustCompile(`reset \d+|_\d{10}\b|((?i)reset(?:-in)?: )\d+|"\d+s"|config\.\w+\.yaml(: duplicate)`)

func timeless(s string) string { return times.ReplaceAllString(s, "$1$2(any)") }

// difference shows the first line in which two texts differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			from := max(0, i-6)
			return fmt.Sprintf("line %d\nwant: %s\ngot:  %s", i+1, strings.Join(w[from:min(i+3, len(w))], "\n      "), strings.Join(g[from:min(i+3, len(g))], "\n      "))
		}
	}
	return "there is more behind the end"
}

// script is a file of testdata.
type script struct {
	t        *testing.T
	archive  *txtar.Archive
	env      map[string]string
	hereOnly bool
	system   system
	now      func(int64)
	// counted and told are what counters and stats said before.
	counted, told map[string]uint64
}

// read looks for what must be known before.
func (s *script) read() {
	s.env = map[string]string{}
	for line := range strings.Lines(string(s.archive.Comment)) {
		line = strings.TrimSpace(line)
		if kv, ok := strings.CutPrefix(line, "set "); ok {
			k, v, _ := strings.Cut(kv, "=")
			s.env[k] = v
		}
		s.hereOnly = s.hereOnly || line == "here only"
	}
}

// play returns the script with the answers of the system.
func (s *script) play() string {
	s.counted, s.told = map[string]uint64{}, map[string]uint64{}
	var out strings.Builder
	for line := range strings.Lines(string(s.archive.Comment)) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line)
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, answer := range s.do(word, rest) {
			out.WriteString("\t" + answer + "\n")
		}
	}
	return out.String()
}

func (s *script) do(word, rest string) []string {
	switch word {
	case "", "#", "set", "here":
		return nil
	case "now":
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		if s.now != nil {
			s.now(n)
		}
		return nil
	case "load":
		rest, merge := strings.CutPrefix(rest, "merge ")
		if text := s.system.load(s.t, s.files(rest), merge); text != "" {
			// The protobuf library writes a space of either kind.
			return strings.Split("error "+strings.ReplaceAll(text, "\u00a0", " "), "\n")
		}
		return []string{"ok"}
	case "ask":
		return s.ask(rest)
	case "json":
		code, body := s.system.json(s.t, rest)
		resp := &rlsv3.RateLimitResponse{}
		if err := protojson.Unmarshal([]byte(body), resp); err == nil {
			body = string(protojsonText(resp))
		}
		return []string{fmt.Sprint(code, " ", strings.TrimSpace(body))}
	case "dump":
		l := strings.Split(strings.TrimSuffix(s.system.dump(s.t), "\n"), "\n")
		slices.Sort(l)
		return l
	case "counters":
		all := s.system.counters(s.t)
		defer func() { s.counted = all }()
		return changes(s.counted, all)
	case "stats":
		all := s.system.stats(s.t)
		defer func() { s.told = all }()
		return changes(s.told, all)
	}
	s.t.Fatalf("no such command: %s", word)
	return nil
}

// protojsonText is protojson without its random spaces.
func protojsonText(resp *rlsv3.RateLimitResponse) []byte {
	b, err := protojson.Marshal(resp)
	if err != nil {
		panic(err)
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(", "), []byte(",")), []byte(": "), []byte(":"))
}

func changes(was, is map[string]uint64) (l []string) {
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if n, ok := was[name]; !ok || n != is[name] {
			l = append(l, fmt.Sprint(name, " ", is[name]-n))
		}
	}
	return l
}

func (s *script) files(names string) (files []File) {
	for _, name := range strings.Fields(names) {
		i := slices.IndexFunc(s.archive.Files, func(f txtar.File) bool { return f.Name == name })
		if i < 0 {
			s.t.Fatalf("no file %s", name)
		}
		files = append(files, File{Name: name, Content: s.archive.Files[i].Data})
	}
	return files
}

var repeated = regexp.MustCompile(`^\((\d+)x\) `)

func (s *script) ask(text string) (l []string) {
	times := 1
	if m := repeated.FindStringSubmatch(text); m != nil {
		times, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	req := request(s.t, text)
	for range times {
		resp, err := s.system.ask(s.t, req)
		if err != nil {
			st := status.Convert(err)
			l = append(l, fmt.Sprintf("error %s %s", st.Code(), st.Message()))
			continue
		}
		l = append(l, describe(resp))
	}
	return l
}

// request reads a request.
func request(t *testing.T, text string) *rlsv3.RateLimitRequest {
	req := &rlsv3.RateLimitRequest{}
	words := strings.Fields(text)
	for i, w := range words {
		if i == 0 {
			if w != "''" {
				req.Domain = w
			}
		} else if n, ok := strings.CutPrefix(w, "hits="); ok {
			req.HitsAddend = uint32(number(t, n))
		} else {
			req.Descriptors = append(req.Descriptors, descriptor(t, w))
		}
	}
	return req
}

var suffix = regexp.MustCompile(`(?:@(\d+)/(\w+?)(?:x(\d+))?)?(?:\+(\d+))?(?:-(\d+))?$`)

func descriptor(t *testing.T, text string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	m := suffix.FindStringSubmatch(text)
	if m[1] != "" {
		unit, ok := rlsv3.RateLimitResponse_RateLimit_Unit_value[m[2]]
		if !ok {
			unit = int32(number(t, m[2]))
		}
		d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(number(t, m[1])), Unit: typev3.RateLimitUnit(unit)}
		if m[3] != "" {
			d.Limit.UnitMultiplier = wrapperspb.UInt32(uint32(number(t, m[3])))
		}
	}
	if m[4] != "" {
		d.HitsAddend = wrapperspb.UInt64(number(t, m[4]))
	}
	if m[5] != "" {
		d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(number(t, m[5])), true
	}
	text = strings.TrimSuffix(text, m[0])
	if text == "" || text == "none" {
		return d
	}
	for _, kv := range strings.Split(text, ",") {
		k, v, _ := strings.Cut(kv, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: k, Value: v})
	}
	return d
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// describe writes a response in one line.
func describe(resp *rlsv3.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(resp.OverallCode.String())
	for _, st := range resp.Statuses {
		b.WriteString(" | " + st.Code.String())
		if l := st.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %d/%s", l.RequestsPerUnit, l.Unit)
			if l.UnitMultiplier != nil {
				fmt.Fprintf(&b, "x%d", l.UnitMultiplier.Value)
			}
			if l.Name != "" {
				b.WriteString(" " + l.Name)
			}
		}
		if st.CurrentLimit != nil || st.LimitRemaining != 0 {
			fmt.Fprintf(&b, " left %d", st.LimitRemaining)
		}
		if st.DurationUntilReset != nil {
			fmt.Fprintf(&b, " reset %d", st.DurationUntilReset.Seconds)
			if st.DurationUntilReset.Nanos != 0 {
				b.WriteString(" and a fraction")
			}
		}
	}
	for _, h := range resp.ResponseHeadersToAdd {
		fmt.Fprintf(&b, "; %s: %s", h.Key, h.Value)
	}
	if m := resp.DynamicMetadata; m != nil {
		b.WriteString("; " + plain(structpb.NewStructValue(m)))
	}
	if len(resp.RequestHeadersToAdd)+len(resp.RawBody) > 0 || resp.Quota != nil {
		b.WriteString("; and more: " + prototext.MarshalOptions{}.Format(resp))
	}
	return b.String()
}

// plain writes a value in one way.
func plain(v *structpb.Value) string {
	switch k := v.Kind.(type) {
	case *structpb.Value_StructValue:
		var l []string
		for _, name := range slices.Sorted(maps.Keys(k.StructValue.Fields)) {
			l = append(l, name+": "+plain(k.StructValue.Fields[name]))
		}
		return "{" + strings.Join(l, ", ") + "}"
	case *structpb.Value_ListValue:
		var l []string
		for _, v := range k.ListValue.Values {
			l = append(l, plain(v))
		}
		return "[" + strings.Join(l, ", ") + "]"
	case *structpb.Value_StringValue:
		return strconv.Quote(limitText.ReplaceAllString(k.StringValue, " "))
	}
	return fmt.Sprint(v.AsInterface())
}

// here is this service.
type here struct {
	service *Service
	web     http.Handler
	book    *book
	store   *stats.Store
	sums    *statsd
	mu      sync.Mutex
	clock   int64
}

func newHere(t *testing.T, s *script) *here {
	h := &here{clock: 1_700_000_000, sums: &statsd{sums: map[string]uint64{}}, book: &book{Memory: counter.NewMemory(counter.MemoryOptions{}), names: map[string]counter.Hit{}}}
	h.store = stats.New(stats.Options{Sink: h.sums})
	o := Options{Counters: h.book, Stats: h.store, Now: func() int64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.clock
	}}
	for name, v := range s.env {
		switch name {
		case "SHADOW_MODE":
			o.Modes.Shadow = v == "true"
		case "QUOTA_MODE":
			o.Modes.Quota = v == "true"
		case "RESPONSE_DYNAMIC_METADATA":
			o.Modes.DynamicMetadata = v == "true"
		case "LIMIT_RESPONSE_HEADERS_ENABLED":
			o.Modes.Headers.Enabled = v == "true"
		case "LIMIT_LIMIT_HEADER":
			o.Modes.Headers.Limit = v
		case "LIMIT_REMAINING_HEADER":
			o.Modes.Headers.Remaining = v
		case "LIMIT_RESET_HEADER":
			o.Modes.Headers.Reset = v
		case "CACHE_KEY_PREFIX":
			o.KeyPrefix = v
		case "NEAR_LIMIT_RATIO":
			f, err := strconv.ParseFloat(v, 32)
			if err != nil {
				t.Fatal(err)
			}
			o.NearLimitRatio = cmp.Or(float32(f), math.SmallestNonzeroFloat32)
		case "LOCAL_CACHE_SIZE_IN_BYTES":
			o.LocalCacheBytes = int64(number(t, v))
		case "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT":
			o.StopIncrementWhenOver = v == "true"
		case "MERGE_DOMAIN_CONFIG":
		default:
			t.Fatalf("no such variable: %s", name)
		}
	}
	h.service = New(o)
	h.web = h.service.JSON()
	return h
}

func (h *here) setNow(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = now
}

func (h *here) load(_ *testing.T, files []File, merge bool) string {
	if err := h.service.Load(files, merge); err != nil {
		return err.Error()
	}
	return ""
}

func (h *here) ask(t *testing.T, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return h.service.ShouldRateLimit(t.Context(), req)
}

func (h *here) json(_ *testing.T, body string) (int, string) {
	w := httptest.NewRecorder()
	h.web.ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func (h *here) dump(t *testing.T) string {
	var b strings.Builder
	if err := h.service.Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (h *here) counters(t *testing.T) map[string]uint64 { return h.book.read(t) }

func (h *here) stats(*testing.T) map[string]uint64 {
	h.store.Flush()
	return h.sums.under("ratelimit.service.")
}

// book is a store in memory that knows the names of its counters.
type book struct {
	*counter.Memory
	mu    sync.Mutex
	names map[string]counter.Hit
	now   int64
}

func (b *book) Add(ctx context.Context, now int64, hits []counter.Hit) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range hits {
		h.Key = bytes.Clone(h.Key)
		b.names[string(h.Key)] = h
	}
	b.now = now
	return b.Memory.Add(ctx, now, hits)
}

func (b *book) read(t *testing.T) map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := map[string]uint64{}
	for name, h := range b.names {
		hits := []counter.Hit{h}
		if err := b.Memory.Look(t.Context(), b.now, hits); err != nil {
			t.Fatal(err)
		}
		m[name] = hits[0].Count
	}
	return m
}

// there is envoyproxy/ratelimit.
type there struct {
	*reference
	redis *servertest.RedisServer
	last  map[string]uint64
}

func newThere(t *testing.T, s *script) *there {
	var env []string
	for name, v := range s.env {
		env = append(env, name+"="+v)
	}
	redis := servertest.Redis(t)
	return &there{reference: startReference(t, redis.Addr, env...), redis: redis}
}

func (r *there) load(t *testing.T, files []File, _ bool) string { return r.reference.load(t, files) }

func (r *there) ask(t *testing.T, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	// Not when a new second is near: its counters begin anew.
	if left := time.Until(time.Now().Truncate(time.Second).Add(time.Second)); left < 300*time.Millisecond {
		<-time.After(left)
	}
	return r.client.ShouldRateLimit(t.Context(), req)
}

func (r *there) json(t *testing.T, body string) (int, string) {
	return fetch(t, "POST", r.http+"/json", body)
}

func (r *there) dump(t *testing.T) string {
	_, body := fetch(t, "GET", r.debug+"/rlconfig", "")
	return body
}

func (r *there) counters(t *testing.T) map[string]uint64 {
	m := map[string]uint64{}
	for _, k := range r.redis.Do(t, "KEYS", "*").([]any) {
		m[k.(string)] = number(t, r.redis.Do(t, "GET", k.(string)).(string))
	}
	return m
}

// stats waits until the reference has told nothing new for two flushes.
func (r *there) stats(*testing.T) map[string]uint64 {
	const quiet = 250 * time.Millisecond
	all := r.reference.stats.under("ratelimit.service.")
	for since := time.Now(); time.Since(since) < quiet; <-time.After(10 * time.Millisecond) {
		if now := r.reference.stats.under("ratelimit.service."); !maps.Equal(now, all) {
			all, since = now, time.Now()
		}
	}
	// Of its start.
	for name, n := range map[string]uint64{"config_load_error": 1, "call.should_rate_limit.service_error": 1} {
		if name = "ratelimit.service." + name; all[name] > n {
			all[name] -= n
		} else {
			delete(all, name)
		}
	}
	return all
}
