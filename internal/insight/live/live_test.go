package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/limits"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func series(t testing.TB, rules ...string) (out []limits.Ref) {
	t.Helper()
	for _, rule := range rules {
		l := weir.PerMinute(10, algorithm.FixedWindow)
		l.Name = "per minute"
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		out = append(out, limits.Ref{Domain: "d", Rule: rule, Limit: l})
	}
	return out
}

func meter(t testing.TB, refs []limits.Ref) *live.Meter {
	t.Helper()
	all := func() []limits.Ref { return refs }
	o, err := event.New(event.Options{Queue: event.NewBroadcast(1), Limits: all})
	if err != nil {
		t.Fatal(err)
	}
	return live.NewMeter(live.Source{Node: "n", Started: time.Unix(1000, 0), Limits: all, Observer: o})
}

func add(l *weir.Limit, o weir.Outcome, n int) {
	for range n {
		l.Counters().Add(o)
	}
}

// Counts are of the time since the last state, for all who ask within a second the
// same, and of no time when nobody has asked for long. Limits of one name are one.
func TestMeter(t *testing.T) {
	limits := series(t, "a", "b", "a")
	m := meter(t, limits)
	add(limits[0].Limit, weir.Allowed, 7)
	now := time.Unix(1010, 0)
	s := m.State(now)
	if s.SpanMS != 0 || s.UptimeMS != 10_000 || len(s.Counts) != 0 || s.Totals["allowed"] != 7 || s.DecisionsPerSecond != 0 {
		t.Errorf("first: %+v", s)
	}
	add(limits[0].Limit, weir.Allowed, 3)
	add(limits[2].Limit, weir.Refused, 1)
	add(limits[1].Limit, weir.Refused, 4)
	add(limits[1].Limit, weir.Degraded, 4)
	if again := m.State(now.Add(800 * time.Millisecond)); again.Totals["allowed"] != 7 {
		t.Errorf("within a second: %+v", again)
	}
	s = m.State(now.Add(2 * time.Second))
	if s.SpanMS != 2000 || s.Counts["allowed"] != 3 || s.Counts["refused"] != 5 || s.DecisionsPerSecond != 4 || s.RefusalsPerSecond != 2.5 || !s.Degraded {
		t.Errorf("after two seconds: %+v", s)
	}
	if len(s.Limits) != 2 || s.Limits[0].Rule != "b" || s.Limits[1].Counts["allowed"] != 3 || s.Limits[1].Counts["refused"] != 1 || s.Limits[1].Totals["allowed"] != 10 {
		t.Errorf("limits: %+v", s.Limits)
	}
	add(limits[0].Limit, weir.Allowed, 100)
	if s = m.State(now.Add(time.Hour)); s.SpanMS != 0 || len(s.Counts) != 0 || s.Totals["allowed"] != 110 || s.Degraded {
		t.Errorf("after an hour: %+v", s)
	}
}

// A state has a bound, whatever the rules.
func TestMeterIsBounded(t *testing.T) {
	var rules []string
	for i := range 1000 {
		rules = append(rules, fmt.Sprint(i))
	}
	limits := series(t, rules...)
	m := meter(t, limits)
	m.State(time.Unix(1, 0))
	add(limits[777].Limit, weir.Refused, 1)
	s := m.State(time.Unix(2, 0))
	if len(s.Limits) != 200 || s.LeftOut != 800 || s.Limits[0].Rule != "777" {
		t.Errorf("%d limits, %d left out, first %s", len(s.Limits), s.LeftOut, s.Limits[0].Rule)
	}
}

func TestFilter(t *testing.T) {
	record := func(domain, rule, key, outcome string) *event.Event {
		return &event.Event{Record: &event.Record{LimitRef: event.LimitRef{Name: limits.Name{Domain: domain, Rule: rule, Limit: "l"}}, Key: key, Outcome: outcome}}
	}
	rollup := &event.Event{Rollup: &event.Rollup{LimitRef: event.LimitRef{Name: limits.Name{Domain: "d", Rule: "r"}}}}
	loss := &event.Event{Loss: &event.Loss{}}
	f := func(query string, e *event.Event, want bool) {
		t.Helper()
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		filter, err := live.ParseFilter(q)
		if err != nil {
			t.Fatal(err)
		}
		if got := filter.KeepsEvent(e); got != want {
			t.Errorf("%q keeps %+v: %v", query, e, got)
		}
		if got := filter.Query().Encode(); got != q.Encode() && query != "domain=" {
			t.Errorf("%q became %q", query, got)
		}
	}
	f("", record("d", "r", "k", "refused"), true)
	f("", loss, true)
	f("domain=", loss, true)
	f("domain=d&rule=r&limit=l&key=k&outcome=refused", record("d", "r", "k", "refused"), true)
	f("domain=x", record("d", "r", "k", "refused"), false)
	f("rule=x", record("d", "r", "k", "refused"), false)
	f("limit=x", record("d", "r", "k", "refused"), false)
	f("key=x", record("d", "r", "k", "refused"), false)
	f("outcome=allowed", record("d", "r", "k", "refused"), false)
	f("outcome=allowed&outcome=refused", record("d", "r", "k", "refused"), true)
	f("domain=x", rollup, false)
	f("key=x&outcome=refused", rollup, true)
	f("kind=record", rollup, false)
	f("kind=record", loss, false)
	f("kind=record&kind=loss", loss, true)

	for query, want := range map[string]string{
		"outcom=refused":                      `did you mean "outcome"`,
		"outcome=refusd":                      `did you mean "refused"`,
		"kind=x":                              "record, rollup, loss, state",
		"key=" + strings.Repeat("k", 2000):    "at most",
		strings.Repeat("key=k&", 200) + "a=b": "at most",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		// The order of parameters is any.
		if _, err := live.ParseFilter(q); err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "unknown parameter") {
			t.Errorf("%.40s: %v", query, err)
		}
	}
}

func TestReader(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		r := live.NewReader(strings.NewReader(text))
		var got []string
		for {
			m, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%q: %v", text, err)
				}
				break
			}
			got = append(got, m.Kind+"="+string(m.Data))
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	f("")
	f("event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", "a=1", "b=2")
	f("\ufeffdata:1\r\ndata: 2\r\n\r\n", "message=1\n2")
	f(": here\n\nevent: a\n\ndata: 1\n\n", "message=1")
	f("id: 7\nretry: 5\nunknown\ndata\n\n", "message=")
	f("data: 1\n\ndata: cut short\n", "message=1")

	for _, text := range []string{strings.Repeat("x", live.MaxMessage+1), strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 6)} {
		if m, err := live.NewReader(strings.NewReader(text)).Next(); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("a long one: %d bytes, %v", len(m.Data), err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("event: a\ndata: 1\n\n: here\n\n"))
	f.Add([]byte("\ufeffdata:1\r\ndata\r\n\r\nid\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := live.NewReader(strings.NewReader(string(text)))
		for n := 0; ; n++ {
			m, err := r.Next()
			if err != nil {
				return
			}
			if n > len(text) || m.Kind == "" || strings.Contains(m.Kind, "\n") {
				t.Fatalf("message %d: %+v", n, m)
			}
		}
	})
}

func FuzzFilter(f *testing.F) {
	f.Add("domain=a&rule=b&outcome=refused")
	f.Add("kind=record&key=%00")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		filter, err := live.ParseFilter(q)
		if err != nil {
			return
		}
		again, err := live.ParseFilter(filter.Query())
		if err != nil || again.Query().Encode() != filter.Query().Encode() {
			t.Errorf("%q: %v", query, err)
		}
	})
}

// stand is a handler on a server.
type stand struct {
	*httptest.Server
	broadcast *event.Broadcast
	limits    []limits.Ref
}

func serve(t *testing.T, opt live.Options) *stand {
	t.Helper()
	s := &stand{broadcast: event.NewBroadcast(2), limits: series(t, "r")}
	opt.Broadcast, opt.Meter = s.broadcast, meter(t, s.limits)
	s.Server = httptest.NewServer(live.Handler(opt))
	t.Cleanup(s.Close)
	t.Cleanup(func() { s.broadcast.Close() })
	return s
}

// watch opens a stream.
func (s *stand) watch(t *testing.T, query string) (*live.Reader, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s, %v", res.Status, res.Header)
	}
	return live.NewReader(res.Body), cancel
}

func next(t *testing.T, r *live.Reader, kind string, v any) {
	t.Helper()
	m, err := r.Next()
	if err != nil || m.Kind != kind {
		t.Fatalf("got %s %s, %v, want %s", m.Kind, m.Data, err, kind)
	}
	if err := json.Unmarshal(m.Data, v); err != nil {
		t.Fatal(err)
	}
}

func (s *stand) publish(t *testing.T, events ...event.Event) {
	t.Helper()
	if err := s.broadcast.Publish(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

func refused(key string) event.Event {
	return event.Event{Record: &event.Record{Key: key, Outcome: "refused", Count: 1}}
}

func TestStream(t *testing.T) {
	s := serve(t, live.Options{})
	r, _ := s.watch(t, "key=a&outcome=refused")
	var state live.State
	next(t, r, live.KindState, &state)
	if state.Node != "n" || len(state.Limits) != 1 {
		t.Errorf("%+v", state)
	}
	s.publish(t, refused("b"), refused("a"), event.Event{Rollup: &event.Rollup{Counts: map[string]uint64{"refused": 2}}}, event.Event{Loss: &event.Loss{Dropped: 3}})
	var (
		record event.Record
		rollup event.Rollup
		loss   event.Loss
	)
	// A state may come between.
	for _, want := range []struct {
		kind string
		v    any
	}{{live.KindRecord, &record}, {live.KindRollup, &rollup}, {live.KindLoss, &loss}, {live.KindState, &state}} {
		for {
			m, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if m.Kind == live.KindState && want.kind != live.KindState {
				continue
			}
			if m.Kind != want.kind {
				t.Fatalf("got %s, want %s", m.Kind, want.kind)
			}
			if err := json.Unmarshal(m.Data, want.v); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if record.Key != "a" || rollup.Counts["refused"] != 2 || loss.Dropped != 3 || state.SpanMS == 0 {
		t.Errorf("%+v %+v %+v %+v", record, rollup, loss, state)
	}
	s.broadcast.Close()
	for {
		if _, err := r.Next(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
	}
	if res, err := s.Client().Get(s.URL); err != nil || res.StatusCode != 503 {
		t.Errorf("after the end: %v, %v", res, err)
	} else {
		res.Body.Close()
	}
}

// There is a bound on readers, and one that goes makes room.
func TestReadersAreBounded(t *testing.T) {
	s := serve(t, live.Options{})
	_, cancel := s.watch(t, "")
	s.watch(t, "")
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "too many readers") {
		t.Errorf("a third: %s %s, %v", res.Status, body, err)
	}
	cancel()
	servertest.Await(t, "room", func() bool { return s.broadcast.Subscribers() < 2 })
	s.watch(t, "")
}

func TestRequestsThatAreNone(t *testing.T) {
	s := serve(t, live.Options{})
	for query, want := range map[string]string{"outcome=refusd": `did you mean \"refused\"`, "rul=a": `did you mean \"rule\"`} {
		res, err := s.Client().Get(s.URL + "?" + query)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 400 || res.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %s, %v", query, res.Status, body, err)
		}
	}
	res, err := s.Client().Head(s.URL)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("HEAD: %v, %v", res, err)
	}
	if s.broadcast.Subscribers() != 0 {
		t.Error("HEAD subscribes")
	}
}

// A stream in which nothing happens says now and then that it lives.
func TestKeepAlive(t *testing.T) {
	s := serve(t, live.Options{KeepAlive: 10 * time.Millisecond})
	res, err := s.Client().Get(s.URL + "?kind=record")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buf := make([]byte, 16)
	if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != ": here\n\n: here\n\n" {
		t.Errorf("%q, %v", buf, err)
	}
}

// Who does not read is cut off in the end; who reads too little misses events, and is
// told how many.
func TestSlowReader(t *testing.T) {
	s := serve(t, live.Options{Buffer: 5, WriteTimeout: 100 * time.Millisecond})
	stuck, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Body.Close()
	// More than the kernel keeps for a connection.
	big := refused(strings.Repeat("k", 64<<10))
	servertest.Await(t, "the one who does not read to be cut off", func() bool {
		s.publish(t, big, big, big, big)
		return s.broadcast.Subscribers() == 0
	})

	reader, _ := s.watch(t, "kind=record")
	was := s.broadcast.Dropped()
	s.publish(t, refused("1"), refused("2"), refused("3"), refused("4"), refused("5"), refused("6"), refused("7"))
	var missed live.Dropped
	next(t, reader, live.KindDropped, &missed)
	for _, want := range []string{"3", "4", "5", "6", "7"} {
		var r event.Record
		if next(t, reader, live.KindRecord, &r); r.Key != want {
			t.Errorf("got %s, want %s", r.Key, want)
		}
	}
	if missed.Events != 2 || s.broadcast.Dropped() != was+2 {
		t.Errorf("%d were missed, told of %d", s.broadcast.Dropped()-was, missed.Events)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "acme": "acme", "süß 世界": "süß 世界", "a b": "a b",
		"a\x1b[2Jb\n": `a\x1b[2Jb\x0a`, "\xff\x9b": `\xff\x9b`, "\u202eabc\u200b": `\u{202e}abc\u{200b}`, "\u0085": `\u{85}`, "\ufffd": `\u{fffd}`,
	} {
		if got := live.Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
