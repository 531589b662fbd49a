package config_test

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/config"
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

func load(t *testing.T, content string) (*config.Config, error) {
	t.Helper()
	return config.Layer(writeFile(t, "weir.yaml", content), config.Defaults(), func(string) bool { return false })
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

// Counts and periods are written as in rules files.
func TestShedSectionIsRead(t *testing.T) {
	c, err := load(t, `
shed:
  name: shop
  domain: api
  user: [account, remote_address]
  off: true
  user_rate: {limit: 100/second, burst: 2_00, mode: shadow}
  user_concurrency: {limit: 20, ttl: 1m30s, mode: off}
  fleet_share: {limit: 5_000/10s, headroom: 0%, mode: enforce}
  in_flight:
    limit: 400
    shares: {default: 80%, background: 0%}
    retry_after: 2 seconds
    mode: shadow
`)
	if err != nil {
		t.Fatal(err)
	}
	want := shed.Options{Name: "shop", Domain: "api", User: []string{"account", "remote_address"}, Off: true,
		UserRate:        shed.RateOptions{Limit: shed.Rate{Count: 100, Period: time.Second}, Burst: 200, Mode: shed.Shadow},
		UserConcurrency: shed.ConcurrencyOptions{Limit: 20, TTL: 90 * time.Second, Mode: shed.Off},
		FleetShare:      shed.FleetOptions{Limit: shed.Rate{Count: 5000, Period: 10 * time.Second}, Reserve: shed.Percent(0)},
		InFlight: shed.InFlightOptions{Limit: 400, Shares: shed.Shares{Default: shed.Percent(80), Background: shed.Percent(0)},
			RetryAfter: 2 * time.Second, Mode: shed.Shadow}}
	if !reflect.DeepEqual(*c.Shed, want) {
		t.Errorf("got %+v", *c.Shed)
	}
}

// TestShedPage reads the example of the page.
func TestShedPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/load-shedding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no example")
	}
	c, err := load(t, text)
	if err != nil || c.Shed == nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if _, err := shed.New(*c.Shed); err != nil || c.Shed.InFlight.Limit == 0 || c.Shed.FleetShare.Limit.Count == 0 {
		t.Errorf("%+v, %v", c.Shed, err)
	}
	for _, name := range shed.Settings() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("setting %s is not on the page", name)
		}
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

func TestShedFileErrors(t *testing.T) {
	f := func(content string, want ...string) {
		t.Helper()
		c, err := load(t, "limits: [10/second by ip]\n"+content)
		if err == nil {
			if err = c.Check(); err == nil {
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
	f("shed: {user_rat: {limit: 1/second}}\n", `weir.yaml:2:8: unknown key "shed.user_rat" (did you mean "user_rate"?)`)
	f("shed:\n  in_flight:\n    limit: lots\n    shares: {critical: 3, defualt: 90%}\n",
		`weir.yaml:4:12: shed.in_flight.limit: "lots" is not a whole number`,
		`weir.yaml:5:24: shed.in_flight.shares.critical: "3" is not a share: write it like 20%`,
		`weir.yaml:5:27: unknown key "shed.in_flight.shares.defualt" (did you mean "default"?)`)
	f("shed: 5\n", "weir.yaml:2:7: shed must hold keys and values")
	f("shed: {user_rate: [1]}\n", "weir.yaml:2:19: shed.user_rate must hold keys and values")
	f("shed: {in_flight: {shares: {default: 190%}}}\n", `shed.in_flight.shares.default: "190%" is not a share: it must be a whole percentage between 0% and 100%`)
	f("shed: {in_flight: {limit: 0}}\n", "shed.in_flight.limit: 0 must be at least 1; to have none leave the key out")
	f("shed: {in_flight: {limit: }}\n", "shed.in_flight.limit must have a value: give one, or leave the key out")
	f("shed: {in_flight: {limit: 1, limit: 2}}\n", `"shed.in_flight.limit" is there twice, first on line 2`)
	f("shed: {in_flight: {retry_after: 2 sceonds}}\n", `shed.in_flight.retry_after: unknown unit "sceonds": did you mean "second"?`)
	f("shed: {user_rate: {limit: 100}}\n", `shed.user_rate.limit: "100" is not a limit: write it like 100/minute or 100/10m`)
	f("shed: {user_rate: {limit: 100/minuet}}\n", `shed.user_rate.limit: unknown unit "minuet": did you mean "minute"?`)
	f("shed: {user_rate: {limit: 0/s}}\n", `shed.user_rate.limit: "0/s": the count must be between 1 and 2^53; to switch a limiter off set its mode to off`)
	f("shed: {user_rate: {limit: [1/s]}, fleet_share: {headroom: [1%]}}\n",
		"shed.user_rate.limit must be a single value\n", "shed.fleet_share.headroom must be a single value")
	f("shed: {user_rate: {limit: {'': 1/s}}}\n", "shed.user_rate.limit must be a single value")
	f("shed: {user_rate: {mode: sahdow}}\n", `shed.user_rate.mode: unknown mode "sahdow": did you mean "shadow"?`)
	f("shed: {off: yes}\n", `shed.off: "yes": write true or false`)
	f("shed: {user: []}\n", "shed.user must have a value: give one, or leave the key out")
	f("shed: {user: [{a: b}]}\n", "shed.user: each must be a single value")
	f("routes: [{priority: {'': 1}}]\n", "routes[0].priority must be a single value")
	f("shed: {in_flight: {limit: 5, shares: {default: 10%, sheddable: 20%}}}\n", "shed: in_flight.shares.sheddable")
	f("shed: {}\nshed: {}\n", `"shed" is there twice, first on line 2`)
	f("routes: [{priority: criticle}]\n", `weir.yaml:2:21: routes[0].priority: unknown priority "criticle": did you mean "critical"?`)
	f("routes: [{priority: -1}]\n", "priority -1 must be between 0 and 1000")
	f("routes: [{priority: 1001}]\n", "priority 1001 must be between 0 and 1000")
}
