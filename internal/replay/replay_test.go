package replay_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/replay"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

func parse(t *testing.T, src string) *limits.Set {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(src), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// try returns rules to be tried by all that lines tell.
func try(t *testing.T, set *limits.Set) *replay.Tried {
	t.Helper()
	tried, err := replay.TryRules(set, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tried
}

// run replays logs and returns the report.
func run(t *testing.T, opt replay.Options, logs ...string) *replay.Report {
	t.Helper()
	r, err := replay.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, log := range logs {
		in, err := accesslog.NewReader(strings.NewReader(log), fmt.Sprint("log", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Read(in); err != nil {
			t.Fatal(err)
		}
		in.Close()
	}
	return r.Report()
}

// visit is a line of a made-up log.
type visit struct {
	at           time.Time
	client, path string
}

func (v visit) String() string {
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 1 \"-\" \"x\"\n", v.client, v.at.Format("02/Jan/2006:15:04:05 -0700"), v.path)
}

// traffic makes up n visits of a few clients to a few paths, some seconds apart.
func traffic(seed uint64, n int) []visit {
	rng := rand.New(rand.NewPCG(seed, 1))
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	out := make([]visit, n)
	for i := range out {
		at = at.Add(time.Duration(rng.IntN(3)) * time.Second)
		out[i] = visit{at, fmt.Sprintf("192.0.2.%d", rng.IntN(6)), []string{"/", "/login", "/a/b"}[rng.IntN(3)]}
	}
	return out
}

func text(visits []visit) string {
	var b strings.Builder
	for _, v := range visits {
		b.WriteString(v.String())
	}
	return b.String()
}

// naive decides visits by limits of fixed windows, without any of our code: the
// independent script.
type naive struct {
	count  map[string]int
	limits []naiveLimit
}

type naiveLimit struct {
	path string // empty for all
	max  int
	span int64
}

func (n *naive) refuses(v visit) bool {
	var keys []string
	for _, l := range n.limits {
		if l.path != "" && l.path != v.path {
			continue
		}
		key := fmt.Sprint(l.path, l.span, v.client, v.at.Unix()/l.span)
		if n.count[key] >= l.max {
			return true
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		n.count[key]++
	}
	return false
}

// A replay decides as a script does that shares no code with it, and two sets of
// rules differ in exactly the requests in which two scripts differ.
func TestReplayAgreesWithAScript(t *testing.T) {
	a := parse(t, `domain: d
descriptors:
  - {key: remote_address, limit: 20/minute, algorithm: fixed_window}
  - {key: path, value: /login, descriptors: [{key: remote_address, limit: 3/minute, algorithm: fixed_window}]}`)
	b := parse(t, `domain: d
descriptors:
  - {key: remote_address, limit: 200/hour, algorithm: fixed_window}
  - {key: path, value: /login, descriptors: [{key: remote_address, limit: 5/minute, algorithm: fixed_window}]}`)
	for seed := range uint64(5) {
		visits := traffic(seed, 5000)
		one := naive{map[string]int{}, []naiveLimit{{"", 20, 60}, {"/login", 3, 60}}}
		two := naive{map[string]int{}, []naiveLimit{{"", 200, 3600}, {"/login", 5, 60}}}
		var refused [2]int64
		var only [2]int64
		for _, v := range visits {
			x, y := one.refuses(v), two.refuses(v)
			for i, is := range []bool{x, y} {
				if is {
					refused[i]++
				}
			}
			switch {
			case x && !y:
				only[0]++
			case y && !x:
				only[1]++
			}
		}
		got := run(t, replay.Options{Rules: try(t, a), Against: try(t, b)}, text(visits))
		if got.Requests != 5000 || got.Rules.Refused != refused[0] || got.Against.Refused != refused[1] {
			t.Errorf("%d requests, refused %d and %d, want %v", got.Requests, got.Rules.Refused, got.Against.Refused, refused)
		}
		if got.OnlyRules.Requests != only[0] || got.OnlyAgainst.Requests != only[1] {
			t.Errorf("differ in %d and %d, want %v", got.OnlyRules.Requests, got.OnlyAgainst.Requests, only)
		}
		if refused[0] == 0 || only[0] == 0 || only[1] == 0 {
			t.Errorf("the traffic shows too little: %v, %v", refused, only)
		}
		if got.Clients != (replay.Number{Count: 6, Exact: true}) {
			t.Errorf("clients %+v", got.Clients)
		}
	}
}

// What is told of each limit adds up.
func TestReportOfLimits(t *testing.T) {
	set := parse(t, `domain: d
descriptors:
  - key: remote_address
    limits:
      - {limit: 2/minute, name: hard, algorithm: fixed_window}
      - {limit: 1/minute, name: watched, algorithm: fixed_window, mode: shadow}
  - {key: path, value: /never, limit: 1/s}
  - {key: tenant, limit: 1/s}
  - {key: method, limit: 1, algorithm: concurrency, ttl: 1m}`)
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var log []visit
	for i := range 5 {
		log = append(log, visit{at.Add(time.Duration(i) * time.Second), "192.0.2.1", "/"})
	}
	log = append(log, visit{at.Add(70 * time.Second), "192.0.2.2", "/"}, visit{at.Add(60 * time.Second), "192.0.2.2", "/"})
	got := run(t, replay.Options{Rules: try(t, set)}, text(log)+"rubbish\n")
	if got.Lines != 8 || got.Bad != 1 || len(got.Faults) != 1 || got.Faults[0].Line != 8 || got.Backwards != 1 {
		t.Errorf("lines %+v", got)
	}
	if !got.First.Equal(at) || !got.Last.Equal(at.Add(70*time.Second)) {
		t.Errorf("from %s to %s", got.First, got.Last)
	}
	o := got.Rules
	if o.Unended != 7 {
		t.Errorf("%d requests met the limit on concurrency, want all 7", o.Unended)
	}
	if o.Refused != 3 || o.RefusedClients.Count != 1 || o.Unlimited != 0 || fmt.Sprint(o.Untried) != "[tenant]" {
		t.Errorf("outcome %+v", o)
	}
	hard, watched := o.Limits[0], o.Limits[1]
	if hard.Limit != "hard" || hard.Met != 7 || hard.Counts["refused"] != 3 || hard.Decisive != 3 || hard.Clients.Count != 2 || hard.Refused.Count != 1 {
		t.Errorf("hard %+v", hard)
	}
	if len(hard.Most) != 1 || hard.Most[0] != (replay.Client{Key: "192.0.2.1", Refused: 3}) {
		t.Errorf("most %+v", hard.Most)
	}
	if !hard.FirstRefused.Equal(at.Add(2*time.Second)) || !hard.LastRefused.Equal(at.Add(4*time.Second)) {
		t.Errorf("refused from %s to %s", hard.FirstRefused, hard.LastRefused)
	}
	if watched.Limit != "watched" || watched.Counts["shadow_refused"] == 0 || watched.Decisive != 0 {
		t.Errorf("watched %+v", watched)
	}
	var allowed, refused int64
	for i := range o.Series.Allowed {
		allowed += o.Series.Allowed[i]
		refused += o.Series.Refused[i]
	}
	if allowed != 4 || refused != 3 {
		t.Errorf("the series tells of %d and %d", allowed, refused)
	}
}

// Years of log fit into a series, and nothing falls out of it.
func TestSeriesGrows(t *testing.T) {
	set := parse(t, "domain: d\ndescriptors: [{key: remote_address, limit: 1/day, algorithm: fixed_window}]")
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	var log []visit
	for i := range 2000 {
		log = append(log, visit{at, "192.0.2.1", "/"})
		at = at.Add(time.Duration(i) * time.Minute)
	}
	s := run(t, replay.Options{Rules: try(t, set)}, text(log)).Rules.Series
	var n int64
	for i := range s.Allowed {
		n += s.Allowed[i] + s.Refused[i]
	}
	if n != 2000 || len(s.Allowed) > 240 || s.From.After(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%d in %d points of %d s from %s", n, len(s.Allowed), s.Seconds, s.From)
	}
}

// Facts are what a node would see: canonical paths, the network of an IPv6 address,
// a host without its port, members of a JSON line.
func TestFacts(t *testing.T) {
	set := parse(t, `domain: d
descriptors:
  - {key: path, value: /login, descriptors: [{key: remote_address, limit: 1/hour}]}
  - {key: host, value: shop.example, limit: 1/hour}
  - {key: tenant, limit: 1/hour}`)
	line := func(addr, path, host, tenant string) string {
		return fmt.Sprintf(`{"ts":1772359200,"remote_addr":"%s","uri":"%s","host":"%s","t":{"id":"%s"},"status":200}`+"\n", addr, path, host, tenant)
	}
	tried, err := replay.TryRules(set, "", map[string]string{"tenant": "t.id"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, replay.Options{Rules: tried},
		line("2001:db8::1", "/login", "", "")+
			line("2001:db8::2", "/%6cogin/?x=1", "", "")+ // the same client and path
			line("2001:db9::2", "/login", "SHOP.example:443", "a")+
			line("192.0.2.1", "/other", "shop.example", "b")+
			line("192.0.2.1", "/other", "", "a"))
	if got.Rules.Refused != 3 || got.Rules.Unlimited != 0 {
		t.Errorf("%d refused, %d unlimited", got.Rules.Refused, got.Rules.Unlimited)
	}
	if m := got.Rules.Limits[0].Most; len(m) != 1 || m[0].Key != "2001:db8::/64" {
		t.Errorf("refused most: %+v", m)
	}
}

// One is not told as many.
func TestOneRequestOfOneClient(t *testing.T) {
	set := parse(t, "domain: d\ndescriptors: [{key: remote_address, limit: 0/s}]")
	got := run(t, replay.Options{Rules: try(t, set), Against: try(t, set)}, text(traffic(1, 1)))
	report := got.Text()
	if !strings.Contains(report, "1 request of 1 client") || strings.Contains(report, "1 requests") || strings.Contains(report, "1 clients") {
		t.Errorf("one request of one client:\n%s", report)
	}
}

func TestReplaySaysWhatIsWrong(t *testing.T) {
	one := parse(t, "domain: d\ndescriptors: [{key: tenant, limit: 1/s}]")
	good := parse(t, "domain: d\ndescriptors: [{key: path, limit: 1/s}]")
	for _, c := range []struct {
		set    *limits.Set
		domain string
		fields map[string]string
		want   string
	}{
		{one, "", nil, "the rules need tenant"},
		{good, "e", nil, `no domain "e"`},
		{good, "", map[string]string{"a": ""}, "field"},
	} {
		if _, err := replay.TryRules(c.set, c.domain, c.fields, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

// The store looks at the clock by itself, while lines are read: the race detector
// watches.
func TestClockIsShared(t *testing.T) {
	set := parse(t, "domain: d\ndescriptors: [{key: remote_address, limit: 1/s}]")
	r, err := replay.New(replay.Options{Rules: try(t, set), MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	log := text(traffic(1, 200))
	for begin := time.Now(); time.Since(begin) < 1500*time.Millisecond; {
		in, err := accesslog.NewReader(strings.NewReader(log), "log", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Read(in); err != nil {
			t.Fatal(err)
		}
		in.Close()
	}
}

// A gateway that asks what the rules are matched by decides as the rules alone, and one
// that asks nothing limits nothing.
func TestReplayOfAGateway(t *testing.T) {
	const src = `domain: d
descriptors:
  - {key: remote_address, limit: 20/minute}
  - {key: path, value: /login, descriptors: [{key: remote_address, limit: 3/minute}]}`
	for seed := range uint64(3) {
		log := text(traffic(seed, 2000))
		want := run(t, replay.Options{Rules: try(t, parse(t, src))}, log)
		set := parse(t, src)
		gateway := &replay.Tried{Files: []string{"rules.yaml"}, Domain: "d", Set: set, Ask: func(r *weir.Request, l *accesslog.Line) bool {
			entry := func(key, value string) weir.Entry { return weir.Entry{Key: key, Value: value} }
			r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{entry("remote_address", l.Address)}},
				weir.Descriptor{Entries: []weir.Entry{entry("path", l.Path()), entry("remote_address", l.Address)}})
			return true
		}}
		got := run(t, replay.Options{Rules: gateway}, log)
		if !reflect.DeepEqual(got, want) || got.Rules.Refused == 0 {
			t.Errorf("seed %d: the gateway\n%+v\nthe rules\n%+v", seed, got, want)
		}
		ask := gateway.Ask
		gateway.Ask = func(r *weir.Request, l *accesslog.Line) bool { return !ask(r, l) }
		if got := run(t, replay.Options{Rules: gateway}, log); got.Rules.Refused != 0 || got.Rules.Unlimited != 2000 {
			t.Errorf("seed %d: a gateway that asks nothing: %+v", seed, got.Rules)
		}
		both := run(t, replay.Options{Rules: try(t, parse(t, src)), Against: gateway}, log)
		if both.OnlyRules.Requests != want.Rules.Refused || both.OnlyAgainst.Requests != 0 {
			t.Errorf("seed %d: side by side: %+v, %+v", seed, both.OnlyRules, both.OnlyAgainst)
		}
	}
}

// TestDemandSaysWhatALimitRefuses: whatever the shape of the traffic, each line can be
// tried: a limit as it is written refuses what it says, and there is one to try unless
// nobody asks twice.
func TestDemandSaysWhatALimitRefuses(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 13, 20, 0, time.UTC)
	for name, asked := range map[string][]int{
		"two of 42 ask for much":   append([]int{900, 400}, slices.Repeat([]int{6, 5, 4, 3}, 10)...),
		"three of 42 ask for much": append([]int{900, 400, 300}, slices.Repeat([]int{6}, 39)...),
		"one alone":                {500},
		"all alike":                slices.Repeat([]int{50}, 42),
		"all twice":                slices.Repeat([]int{2}, 42),
		"all once":                 slices.Repeat([]int{1}, 42),
	} {
		var log []visit
		for client, n := range asked {
			for i := range n {
				log = append(log, visit{at.Add(time.Duration(i) * 3500 * time.Second / time.Duration(n)).Truncate(time.Second), fmt.Sprintf("192.0.2.%d", client), "/"})
			}
		}
		slices.SortStableFunc(log, func(a, b visit) int { return a.at.Compare(b.at) })
		limited := func(count int64) replay.Limit {
			set := parse(t, fmt.Sprintf("domain: d\ndescriptors:\n  - {key: remote_address, limit: %d/hour, algorithm: fixed_window}\n", count))
			return run(t, replay.Options{Rules: try(t, set)}, text(log)).Rules.Limits[0]
		}
		demand := limited(10).Demand
		if once := name == "all once"; once != (len(demand.Trials) == 0) {
			t.Errorf("%s: limits tried: %v", name, demand.Trials)
		}
		for _, trial := range demand.Trials {
			got := limited(trial.Count)
			if got.Counts["refused"] != trial.Units || int64(got.Refused.Count) != trial.Keys || trial.Units == 0 {
				t.Errorf("%s: %+v, but the limit refuses %d of %d", name, trial, got.Counts["refused"], got.Refused.Count)
			}
		}
	}
}
