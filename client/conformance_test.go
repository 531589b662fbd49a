package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/client"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// conformance is the file of cases that the clients of every language run.
type conformance struct {
	About  []string                   `json:"about"`
	Rules  string                     `json:"rules"`
	Bodies map[string]json.RawMessage `json:"bodies"`
	Cases  []struct {
		Name    string          `json:"name"`
		Server  string          `json:"server"`
		Options json.RawMessage `json:"options"`
		// Transport has the options of what sends requests to any API.
		Transport transportOf `json:"transport"`
		Each      []reply     `json:"each"`
		Steps     []step      `json:"steps"`
	} `json:"cases"`
	Throttle []json.RawMessage `json:"throttle"`
}

type step struct {
	Answer   *reply         `json:"answer"`
	Answers  []reply        `json:"answers"`
	Advance  float64        `json:"advance"`
	Do       string         `json:"do"`
	Check    checkOf        `json:"check"`
	Checks   []checkOf      `json:"checks"`
	Copies   int            `json:"copies"`
	ClientID string         `json:"client_id"`
	Handle   string         `json:"handle"`
	Actual   int64          `json:"actual"`
	As       string         `json:"as"`
	Times    int            `json:"times"`
	Together int            `json:"together"`
	Timeout  float64        `json:"timeout"`
	Method   string         `json:"method"`
	Body     any            `json:"body"`
	Expect   map[string]any `json:"expect"`
}

type transportOf struct {
	MaxWait    float64    `json:"max_wait"`
	MaxWaiting int        `json:"max_waiting"`
	MaxPause   float64    `json:"max_pause"`
	Retries    int        `json:"retries"`
	Throttle   throttleOf `json:"throttle"`
	NoThrottle bool       `json:"no_throttle"`
}

type throttleOf struct {
	Ratio float64 `json:"ratio"`
	Least int     `json:"least"`
}

func (o throttleOf) options() client.ThrottleOptions {
	return client.ThrottleOptions{Ratio: o.Ratio, Least: o.Least}
}

type checkOf struct {
	Domain   string      `json:"domain"`
	Entries  [][2]string `json:"entries"`
	Cost     int64       `json:"cost"`
	Priority int         `json:"priority"`
	Lease    string      `json:"lease"`
	Key      string      `json:"idempotency_key"`
}

func (k checkOf) check() client.Check {
	var entries []weir.Entry
	for _, e := range k.Entries {
		entries = append(entries, weir.Entry{Key: e[0], Value: e[1]})
	}
	c := client.Of(k.Domain, entries...)
	c.Cost, c.Priority, c.Lease, c.IdempotencyKey = k.Cost, k.Priority, k.Lease, k.Key
	return c
}

// TestConformance runs the cases that every client of Weir passes.
func TestConformance(t *testing.T) {
	f := readConformance(t)
	for _, c := range f.Cases {
		t.Run(c.Name, func(t *testing.T) {
			var addr string
			var s *script
			switch c.Server {
			case "weir":
				addr = serveRules(t, f.Rules, "").addr
			case "script":
				s = newScript(t, f.Bodies)
				addr = s.Listener.Addr().String()
			case "away":
				addr = fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
			default:
				t.Fatalf("no server %q", c.Server)
			}
			for i := range max(len(c.Each), 1) {
				bubble.Test(t, func(t *testing.T) {
					r := newConformer(t, addr, s, c.Options, c.Transport)
					if c.Each != nil {
						s.answer(c.Each[i : i+1])
						r.where = fmt.Sprintf("answer %d: ", i)
					}
					for j, st := range c.Steps {
						r.run(t, j, st)
					}
				})
			}
		})
	}
}

func readConformance(t *testing.T) (f conformance) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "conformance.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	d := json.NewDecoder(file)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// conformer runs the steps of one case.
type conformer struct {
	c            *client.Client
	transport    *client.Transport
	url          string
	s            *script
	calls        int // before the case
	where        string
	reservations map[string]client.Reservation
	leases       map[string]client.Lease
	logged       levels
}

// levels collects the levels of what is logged.
type levels struct {
	slog.Handler
	words []any
}

func (l *levels) Enabled(context.Context, slog.Level) bool { return true }

func (l *levels) Handle(_ context.Context, r slog.Record) error {
	l.words = append(l.words, map[slog.Level]string{slog.LevelWarn: "warning", slog.LevelInfo: "info"}[r.Level])
	return nil
}

func newConformer(t *testing.T, addr string, s *script, options json.RawMessage, transport transportOf) *conformer {
	t.Helper()
	var o struct {
		Domain      string     `json:"domain"`
		Fallback    string     `json:"fallback"`
		Budget      float64    `json:"budget"`
		MaxRemember float64    `json:"max_remember"`
		MaxInFlight int        `json:"max_in_flight"`
		Throttle    throttleOf `json:"throttle"`
	}
	if len(options) > 0 {
		if err := json.Unmarshal(options, &o); err != nil {
			t.Fatal(err)
		}
	}
	opt := client.Options{
		Domain: o.Domain, Budget: duration(o.Budget), MaxRemember: duration(o.MaxRemember), MaxInFlight: o.MaxInFlight,
		Throttle: o.Throttle.options(),
	}
	if o.Fallback == "deny" {
		opt.Fallback = client.Deny
	}
	if opt.Budget == 0 {
		opt.Budget = 5 * time.Second
	}
	r := &conformer{url: "http://" + addr + "/any", s: s, reservations: map[string]client.Reservation{}, leases: map[string]client.Lease{}}
	opt.Log = slog.New(&r.logged)
	var err error
	way := &frozen{Transport: http.Transport{DisableKeepAlives: true}, s: s}
	if opt.Wire, err = client.NewHTTP(client.HTTPOptions{URL: "http://" + addr, Transport: way}); err != nil {
		t.Fatal(err)
	}
	if r.c, err = client.New(opt); err != nil {
		t.Fatal(err)
	}
	r.transport, err = client.NewTransport(client.TransportOptions{
		Base: way, MaxWait: duration(transport.MaxWait), MaxWaiting: transport.MaxWaiting, MaxPause: duration(transport.MaxPause),
		Retries: transport.Retries, Throttle: transport.Throttle.options(), NoThrottle: transport.NoThrottle,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		r.calls = s.calls
	}
	return r
}

func duration(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

func (r *conformer) run(t *testing.T, i int, st step) {
	t.Helper()
	switch {
	case st.Answer != nil:
		r.s.answer([]reply{*st.Answer})
		return
	case st.Answers != nil:
		r.s.answer(st.Answers)
		return
	case st.Advance != 0:
		time.Sleep(duration(st.Advance))
		return
	}
	var together sync.WaitGroup
	for range st.Together {
		together.Go(func() { _, _ = r.ask(st) })
	}
	together.Wait()
	for n := range max(st.Times, 1) {
		got := map[string]any{}
		if st.Do != "" && st.Together == 0 {
			start := time.Now()
			var err error
			if got, err = r.ask(st); err != nil {
				maps.Copy(got, failure(err))
			}
			got["slept"] = time.Since(start).Seconds()
			for _, k := range []string{"error", "refused"} {
				if got[k] != nil && st.Expect[k] == nil {
					t.Fatalf("%sstep %d, time %d, %s: %v", r.where, i, n, st.Do, err)
				}
			}
		}
		b, err := json.Marshal(r.c.Counters())
		var counters any
		if err != nil || json.Unmarshal(b, &counters) != nil {
			t.Fatal(err)
		}
		got["counters"], got["logged"] = counters, r.logged.words
		if r.s != nil {
			r.s.mu.Lock()
			got["calls"], got["request"] = float64(r.s.calls-r.calls), r.s.request
			r.s.mu.Unlock()
		}
		if k := differs(st.Expect, got); k != "" {
			t.Fatalf("%sstep %d, time %d, %s: %s of %v, want %v", r.where, i, n, st.Do, k, got, st.Expect)
		}
	}
}

// ask makes the call of a step, and returns what is expected of.
func (r *conformer) ask(st step) (map[string]any, error) {
	ctx := context.Background()
	if st.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, duration(st.Timeout))
		defer cancel()
	}
	var d client.Decision
	var err error
	k := st.Check.check()
	switch st.Do {
	case "check":
		d, err = r.c.Check(ctx, k)
	case "peek":
		d, err = r.c.Peek(ctx, k)
	case "should_allow":
		d, err = r.c.ShouldAllow(ctx, st.ClientID)
	case "wait":
		d, err = r.c.Wait(ctx, k)
	case "check_all":
		return r.askAll(ctx, st)
	case "reserve":
		res, err := r.c.Reserve(ctx, k)
		r.reservations[st.As] = res
		got := facts(res.Decision)
		got["handle"] = res.Handle != ""
		return got, err
	case "commit", "cancel":
		res := r.reservations[st.As]
		if st.Handle != "" {
			res.Handle = st.Handle
		}
		var s client.Settlement
		if st.Do == "commit" {
			s, err = r.c.Commit(ctx, res, st.Actual)
		} else {
			s, err = r.c.Cancel(ctx, res)
		}
		return map[string]any{"reserved": float64(s.Reserved), "actual": float64(s.Actual)}, err
	case "acquire", "renew":
		var l client.Lease
		if st.Do == "acquire" {
			l, d, err = r.c.Acquire(ctx, k)
		} else {
			l, d, err = r.c.Renew(ctx, r.leases[st.As])
		}
		r.leases[st.As] = l
		got := facts(d)
		got["handle"] = l.Check.Lease != ""
		return got, err
	case "send":
		return r.send(ctx, st)
	case "release":
		released, err := r.c.Release(ctx, r.leases[st.As])
		return map[string]any{"released": released}, err
	default:
		err = fmt.Errorf("nothing does %q", st.Do)
	}
	return facts(d), err
}

// send sends a request to any path.
func (r *conformer) send(ctx context.Context, st step) (map[string]any, error) {
	var body io.Reader
	if st.Body != nil {
		text, err := json.Marshal(st.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, st.Method, r.url, body)
	if err != nil {
		return nil, err
	}
	res, err := r.transport.RoundTrip(req)
	var limited *client.Limited
	if errors.As(err, &limited) {
		return map[string]any{"limited": map[string]any{"retry_after": limited.RetryAfter.Seconds(), "throttled": limited.Throttled}}, nil
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"status": float64(res.StatusCode)}, res.Body.Close()
}

func (r *conformer) askAll(ctx context.Context, st step) (map[string]any, error) {
	var ks []client.Check
	for _, k := range st.Checks {
		ks = append(ks, k.check())
	}
	ds, err := r.c.CheckAll(ctx, slices.Repeat(ks, max(st.Copies, 1)))
	all := []any{}
	for _, d := range ds {
		all = append(all, facts(d))
	}
	return map[string]any{"all": all}, err
}

// facts returns what can be expected of a decision.
func facts(d client.Decision) map[string]any {
	seconds := func(d time.Duration) any {
		if d == weir.Never {
			return "never"
		}
		return d.Seconds()
	}
	got := map[string]any{
		"allowed": d.Allowed, "repeated": d.Repeated, "source": d.Source.String(), "degraded": d.Degraded, "delay": d.Delay.Seconds(),
		"retry_after": seconds(d.RetryAfter), "reset_after": seconds(d.ResetAfter), "remaining": "unknown", "algorithm": "none", "cause": cause(d.Cause),
	}
	if d.Remaining >= 0 {
		got["remaining"] = float64(d.Remaining)
	}
	if d.Limit != nil {
		got["algorithm"] = d.Limit.Algorithm
	}
	return got
}

func cause(err error) string {
	var busy *client.Busy
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, client.ErrOpen):
		return "open"
	case errors.Is(err, client.ErrThrottled):
		return "throttled"
	case errors.Is(err, client.ErrInFlight):
		return "in_flight"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &busy):
		return "busy"
	}
	return "failure"
}

func failure(err error) map[string]any {
	var wrong *client.Error
	var refused *client.Refused
	switch {
	case errors.As(err, &refused):
		got := facts(refused.Decision)
		got["refused"] = true
		return got
	case errors.As(err, &wrong):
		said := map[string]any{"status": float64(wrong.Status), "detail": wrong.Detail, "code": wrong.Code}
		if s := wrong.Settled; s != nil {
			said["reserved"], said["actual"] = float64(s.Reserved), float64(s.Actual)
		}
		return map[string]any{"error": said}
	}
	return map[string]any{"error": map[string]any{"detail": err.Error()}}
}

// differs returns the first key of want that got does not have or has another value of.
func differs(want, got map[string]any) string {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if !fits(k, want[k], got[k]) {
			return k
		}
	}
	return ""
}

func fits(k string, want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		return ok && (k == "body" && reflect.DeepEqual(w, g) || k != "body" && differs(w, g) == "")
	case []any:
		if n, ok := got.(float64); ok {
			return n >= w[0].(float64)-1e-6 && n <= w[1].(float64)+1e-6
		}
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !fits("", w[i], g[i]) {
				return false
			}
		}
		return true
	case float64:
		n, ok := got.(float64)
		return ok && math.Abs(n-w) <= 1e-6
	case string:
		s, ok := got.(string)
		return ok && (s == w || k == "detail" && strings.Contains(s, w))
	}
	return want == got
}
