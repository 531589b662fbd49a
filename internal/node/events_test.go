package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/shed"
)

// running is a server in this process.
type running struct {
	node.Ready
	// drain ends it and returns what Run does.
	drain func() error
}

func run(t *testing.T, conf *config.Config) *running {
	t.Helper()
	return runLogged(t, conf, slog.DiscardHandler)
}

// runLogged is run with a log.
func runLogged(t *testing.T, conf *config.Config, log slog.Handler) *running {
	t.Helper()
	s, err := node.New(conf, node.Build{}, slog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan node.Ready, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
	over := false
	r := &running{drain: func() error {
		over = true
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(5 * time.Minute):
			return errors.New("the server does not end")
		}
	}}
	t.Cleanup(func() {
		if !over {
			_ = r.drain() // the test says what it thinks of its end
		}
	})
	select {
	case r.Ready = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return r
}

// get asks the admin port of a server. The caller closes the body.
func (r *running) get(ctx context.Context, t *testing.T, path, token string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URLs["admin"]+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// watch opens the live stream of a server.
func (r *running) watch(t *testing.T, query, token string) *live.Reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	res := r.get(ctx, t, "/v1/live?"+query, token)
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	return live.NewReader(res.Body)
}

func (r *running) ask(t *testing.T, id string) {
	t.Helper()
	res, err := client.Post(r.URLs["http"]+"/shouldAllowRequest", "application/json", strings.NewReader(fmt.Sprintf(`{"clientId":%q}`, id)))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

// What was decided until the last request reaches who listens, before the drain ends
// the stream: records and roll-ups of limits in words and of load shedding.
func TestEventsToTheLast(t *testing.T) {
	defer servertest.NoLeaks(t, goleak.IgnoreCurrent())
	const token = "0123456789abcdef"
	c := local("3/hour by client_id")
	c.Events.Sample, c.Events.Unhashed, c.Events.Node, c.Events.Region, c.Admin.Token = 1, true, "here", "eu-1", token
	c.Shed = new(shed.Options)
	r := run(t, c)
	if code, _ := get(t, r.URLs["admin"]+"/v1/live"); code != 401 {
		t.Errorf("without the token: %d", code)
	}
	stream := r.watch(t, "", token)
	if m, err := stream.Next(); err != nil || m.Kind != live.KindState || !strings.Contains(string(m.Data), `"node":"here","region":"eu-1"`) {
		t.Fatalf("%s %s, %v", m.Kind, m.Data, err)
	}
	const clients, each = 5, 7
	for i := range clients * each {
		r.ask(t, fmt.Sprint("c", i%clients))
	}
	// One more, which is decided when the drain has begun.
	late, err := net.Dial("tcp", strings.TrimPrefix(r.URLs["http"], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if err := late.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	const body = `{"clientId":"late"}`
	fmt.Fprintf(late, "POST /shouldAllowRequest HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:5])
	drained := make(chan error, 1)
	go func() { drained <- r.drain() }()
	servertest.Await(t, "the drain to begin", func() bool {
		code, _ := get(t, r.URLs["admin"]+"/healthz/ready")
		return code == 503
	})
	fmt.Fprint(late, body[5:])
	if answer, err := io.ReadAll(late); err != nil || !strings.Contains(string(answer), `{"allowed":true}`) {
		t.Fatalf("the late one: %q, %v", answer, err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	records, rollups, keys := map[string]int64{}, map[string]int64{}, map[string]bool{}
	for {
		m, err := stream.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		var e struct {
			event.LimitRef
			Key, Outcome string
			Count        int64
			Counts       map[string]int64
		}
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		switch m.Kind {
		case live.KindRecord:
			records[e.Domain+" "+e.Rule+" "+e.Limit+" "+e.Outcome] += e.Count
			keys[e.Key] = true
		case live.KindRollup:
			for outcome, n := range e.Counts {
				rollups[e.Domain+" "+e.Rule+" "+e.Limit+" "+outcome] += n
			}
		}
	}
	for outcome, want := range map[string]int64{"allowed": 3*clients + 1, "refused": (each - 3) * clients} {
		at := "api client_id 3/hour by client_id " + outcome
		if records[at] != want || rollups[at] != want {
			t.Errorf("%s: records tell of %d, roll-ups of %d, want %d", at, records[at], rollups[at], want)
		}
	}
	if len(keys) != clients+1 || !keys["c0"] {
		t.Errorf("keys %v", keys)
	}
}

// Nothing is heard, and nothing made, where nobody asked for it.
func TestEventsOff(t *testing.T) {
	c := local("3/hour")
	c.Events.URL = "off"
	r := run(t, c)
	if code, body := get(t, r.URLs["admin"]+"/v1/live"); code != 404 || !strings.Contains(body, "--events") {
		t.Errorf("%d %s", code, body)
	}
	if _, body := get(t, r.URLs["admin"]+"/metrics"); strings.Contains(body, "weir_events_") {
		t.Error("metrics of events that there are not")
	}
}

// A queue that is away holds up neither the start nor a decision nor, for long, the
// end, and metrics tell.
func TestEventsWithoutTheirQueue(t *testing.T) {
	t.Parallel() // they wait for what does not come
	for _, scheme := range []string{"amqp", "kafka"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			c := local("1/hour by client_id")
			c.Events.URL = fmt.Sprintf("%s://127.0.0.1:%d/weir", scheme, servertest.FreePort(t))
			r := run(t, c)
			stream := r.watch(t, "kind=record&outcome=refused", "")
			for range 3 {
				r.ask(t, "a")
			}
			if m, err := stream.Next(); err != nil || m.Kind != live.KindRecord || !strings.Contains(string(m.Data), `"refused"`) || strings.Contains(string(m.Data), `"key":"a"`) {
				t.Errorf("%s %s, %v", m.Kind, m.Data, err)
			}
			_, body := get(t, r.URLs["admin"]+"/metrics")
			for _, line := range []string{"weir_events_published_total 0\n", "weir_events_max_backlog 200000\n", "weir_live_readers 1\n"} {
				if !strings.Contains(body, line) {
					t.Errorf("no %s", line)
				}
			}
			// Whoever watches hears of events just before the queue does.
			servertest.Await(t, "events to wait for the queue", func() bool {
				_, body := get(t, r.URLs["admin"]+"/metrics")
				return !strings.Contains(body, "weir_events_backlog 0\n")
			})
			if err := r.drain(); err != nil {
				t.Error(err)
			}
		})
	}
}
