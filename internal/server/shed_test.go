package server_test

import (
	"bytes"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/shed"
)

const shedFile = `
limits: [10/second by ip]
upstream: http://127.0.0.1:1
shed:
  user: client
  user_rate: {limit: 100/second, burst: 200}
  fleet_share: {limit: 5000/second, headroom: 0%, mode: shadow}
  in_flight:
    limit: 400
    shares: {sheddable: 60%, background: 0%}
    retry_after: 2s
routes:
  - {path: /pay, priority: critical}
  - {path: /list, priority: 2}
  - {path: /batch, priority: "7"}
  - {path: /}
`

func load(t *testing.T, content string) (*server.Config, error) {
	t.Helper()
	return server.Layer(write(t, "weir.yaml", content), server.Defaults(), func(string) bool { return false })
}

// What is printed of the section and of priorities means the same.
func TestShedSection(t *testing.T) {
	c, err := load(t, shedFile)
	if err != nil {
		t.Fatal(err)
	}
	want := &shed.Options{
		User:       []string{"client"},
		UserRate:   shed.RateOptions{Limit: shed.Rate{Count: 100, Period: time.Second}, Burst: 200},
		FleetShare: shed.FleetOptions{Limit: shed.Rate{Count: 5000, Period: time.Second}, Reserve: shed.Percent(0), Mode: shed.Shadow},
		InFlight: shed.InFlightOptions{Limit: 400, RetryAfter: 2 * time.Second,
			Shares: shed.Shares{Sheddable: shed.Percent(60), Background: shed.Percent(0)}},
	}
	if !reflect.DeepEqual(c.Shed, want) {
		t.Errorf("read %+v, want %+v", c.Shed, want)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"priority: critical", "priority: sheddable", `priority: "7"`, `priority: ""`, "limit: 100/second", "headroom: 0%"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %s in:\n%s", part, &out)
		}
	}
	back, err := load(t, out.String())
	if err != nil {
		t.Fatalf("%v in:\n%s", err, &out)
	}
	var again bytes.Buffer
	if err := back.Print(&again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Shed, c.Shed) || again.String() != out.String() {
		t.Errorf("printed and read again:\n%s\nwant\n%s", &again, &out)
	}
	// Off unless the section is there.
	if c, err := load(t, "limits: [10/second by ip]\nshed:\n"); err != nil || c.Shed != nil {
		t.Errorf("a section that is absent is %+v (%v)", c.Shed, err)
	}
	if c, err := load(t, "limits: [10/second by ip]\nshed: {}\n"); err != nil || c.Shed == nil {
		t.Errorf("an empty section is %+v (%v)", c.Shed, err)
	}
}

// Every key of the section is on the page.
func TestShedIsDocumented(t *testing.T) {
	_, page, _ := strings.Cut(reference(), "## shed")
	var each func(reflect.Type)
	each = func(v reflect.Type) {
		for f := range v.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if f.Type.Kind() == reflect.Struct && f.Type.Field(0).Tag.Get("yaml") != "" {
				each(f.Type)
			} else if !strings.Contains(page, name+"`") {
				t.Errorf("%s is not on the page", name)
			}
		}
	}
	each(reflect.TypeFor[shed.Options]())
}

// Shedding is a limit too: it needs no other beside it.
func TestShedAlone(t *testing.T) {
	c, err := load(t, "shed: {in_flight: {limit: 5}}\nupstream: http://127.0.0.1:1\n")
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := server.New(c, server.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestShedFileErrors(t *testing.T) {
	f := func(content string, want ...string) {
		t.Helper()
		c, err := load(t, "limits: [10/second by ip]\n"+content)
		if err == nil {
			var s *server.Server
			c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
			if s, err = server.New(c, server.Build{}, slog.New(slog.DiscardHandler)); err == nil {
				s.Close()
				t.Errorf("accepted:\n%s", content)
				return
			}
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("no %q in: %v", part, err)
			}
		}
	}
	f("shed: {user_rat: {limit: 1/second}}\n", `weir.yaml:2: shed: unknown key "user_rat": did you mean "user_rate"?`)
	f("shed:\n  in_flight:\n    limit: lots\n    shares: {critical: 3}\n", "weir.yaml:4: shed: in_flight.limit", "weir.yaml:5: shed: in_flight.shares.critical")
	f("shed: 5\n", "weir.yaml:2: shed: ", "must hold keys and values")
	f("shed: {in_flight: {limit: 5, shares: {default: 10%, sheddable: 20%}}}\n", "shed: in_flight.shares.sheddable")
	f("shed: {}\nshed: {}\n", `"shed" is there twice, first on line 2`)
	f("routes: [{priority: criticle}]\n", `weir.yaml:2:21: routes[0].priority: unknown priority "criticle": did you mean "critical"?`)
	f("routes: [{priority: -1}]\n", "priority -1 must be between 0 and 1000")
	f("routes: [{priority: 1001}]\n", "priority 1001 must be between 0 and 1000")
}
