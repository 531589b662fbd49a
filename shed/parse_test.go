package shed_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/shed"
)

func TestParsePriority(t *testing.T) {
	for i, name := range []string{"critical", "default", "sheddable", "background"} {
		p, err := shed.ParsePriority(name)
		if err != nil || int(p) != i || p.String() != name {
			t.Errorf("%s: got %d %s, %v", name, p, p, err)
		}
	}
	f := func(name, want string) {
		t.Helper()
		if _, err := shed.ParsePriority(name); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	f("", `unknown priority "": choose one of critical, default, sheddable, background`)
	f("Critical", `unknown priority "Critical": did you mean "critical"?`)
	f("backgruond", `unknown priority "backgruond": did you mean "background"?`)
	f("0", `unknown priority "0": choose one of critical, default, sheddable, background`)
	if a, b := shed.Priority(-1).String(), shed.Priority(99).String(); a != "critical" || b != "background" {
		t.Errorf("out of range: %s and %s", a, b)
	}
	names := shed.Priorities()
	_ = append(names, "more")
	if len(shed.Priorities()) != 4 {
		t.Error("the caller can change the list")
	}
}

func FuzzParsePriority(f *testing.F) {
	for _, name := range append(shed.Priorities(), "", "Critical", strings.Repeat("x", 1000)) {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := shed.ParsePriority(name)
		if err == nil && p.String() != name {
			t.Errorf("%q is read as %s", name, p)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// FuzzParseRate holds ParseRate against what a rules file takes.
func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"100/minute", "100/10m", "5 per 2 days", "5 / 2 days", "1_000/d", "1/1h30m", "1/250ms", "1/µs", "20", "0/s",
		"1/minuet", "1/", "/s", "01/s", "+1/s", "_1/s", "9007199254740993/s", "1/99999999w", "1/0s", "1/ 5", "1/M", "1/1s1s", "1/ms5", "1/s s", "1 per s"} {
		f.Add(s)
	}
	for _, word := range strings.Fields("us µs ms second seconds s sec secs minute minutes m min mins hour hours h hr hrs day days d week weeks w month months year years y fortnight") {
		f.Add("7/" + word)
		f.Add("7/3" + word)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := shed.ParseRate(s)
		want, wantErr := rules.ParseRate(s)
		possible := wantErr == nil && want.Period > 0 && want.Count >= 1 && want.Count <= 1<<53 && len(s) <= 256
		if possible != (err == nil) {
			t.Fatalf("%q: got %v, %v; rules read %v, %v", s, got, err, want, wantErr)
		}
		if err != nil {
			if got != (shed.Rate{}) && got.Period != 0 {
				t.Errorf("%q: %v with an error", s, got)
			}
			return
		}
		if got.Count != want.Count || got.Period != want.Period {
			t.Errorf("%q: got %v, rules read %v", s, got, want)
		}
		if again, err := shed.ParseRate(got.String()); err != nil || again != got {
			t.Errorf("%q is written %s, which is read as %v, %v", s, got, again, err)
		}
	})
}

func TestParseShare(t *testing.T) {
	for n := range 101 {
		s, err := shed.ParseShare(fmt.Sprintf("%d%%", n))
		if err != nil || s != shed.Percent(n) || s.IsZero() || s.String() != fmt.Sprintf("%d%%", n) {
			t.Errorf("%d%%: got %s, %v", n, s, err)
		}
	}
	for _, s := range []string{"", "%", "20", "101%", "-1%", "1.5%", "x%", "0x1%", strings.Repeat("0", 300) + "%"} {
		if got, err := shed.ParseShare(s); err == nil || !strings.Contains(err.Error(), "is not a share") {
			t.Errorf("%q: got %s, %v", s, got, err)
		}
	}
}

const full = `
name: shop
domain: api
user: [account, remote_address]
off: true
user_rate: {limit: 100/second, burst: 200, mode: shadow}
user_concurrency: {limit: 20, ttl: 1m30s, mode: off}
fleet_share: {limit: 5_000/10s, headroom: 0%, mode: enforce}
in_flight:
  limit: 400
  shares: {default: 80%, background: 0%}
  retry_after: 2s
  mode: shadow
`

func TestParse(t *testing.T) {
	o, err := shed.Parse([]byte(full), "weir.yaml")
	want := shed.Options{Name: "shop", Domain: "api", User: []string{"account", "remote_address"}, Off: true,
		UserRate:        shed.RateOptions{Limit: shed.Rate{Count: 100, Period: time.Second}, Burst: 200, Mode: shed.Shadow},
		UserConcurrency: shed.ConcurrencyOptions{Limit: 20, TTL: 90 * time.Second, Mode: shed.Off},
		FleetShare:      shed.FleetOptions{Limit: shed.Rate{Count: 5000, Period: 10 * time.Second}, Reserve: shed.Percent(0)},
		InFlight: shed.InFlightOptions{Limit: 400, Shares: shed.Shares{Default: shed.Percent(80), Background: shed.Percent(0)},
			RetryAfter: 2 * time.Second, Mode: shed.Shadow}}
	if err != nil || !reflect.DeepEqual(o, want) {
		t.Errorf("got %+v, %v", o, err)
	}
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := shed.Parse(text, "again"); err != nil || !reflect.DeepEqual(again, o) {
		t.Errorf("written as\n%s\nread as %+v, %v", text, again, err)
	}
	if o, err := shed.Parse([]byte("# nothing\n"), "empty"); err != nil || !reflect.DeepEqual(o, shed.Options{}) {
		t.Errorf("nothing is read as %+v, %v", o, err)
	}
}

func TestParseErrors(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, err := shed.Parse([]byte(text), "weir.yaml")
		if err == nil || err.Error() != strings.Join(want, "\n") {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, strings.Join(want, "\n"))
		}
	}
	f("user_rat: {limit: 1/s}\nin_flight:\n  limit: many\n  shares: {defualt: 90}\n",
		`weir.yaml: line 1: unknown key "user_rat": did you mean "user_rate"?`,
		`weir.yaml: line 3: in_flight.limit: "many" is not a whole number`,
		`weir.yaml: line 4: unknown key "in_flight.shares.defualt": did you mean "default"?`)
	f("in_flight: {shares: {default: 90}}", `weir.yaml: line 1: in_flight.shares.default: "90" is not a share: write it like 20%`)
	f("in_flight: {shares: {default: 190%}}", `weir.yaml: line 1: in_flight.shares.default: "190%" is not a share: it must be a whole percentage between 0% and 100%`)
	f("in_flight: {limit: 0}", `weir.yaml: line 1: in_flight.limit: 0 must be at least 1; to have none leave the key out`)
	f("in_flight: {limit: 1, limit: 2}", `weir.yaml: line 1: "in_flight.limit" is in line 1 already: keep one of them`)
	f("user_rate: {limit: 100}", `weir.yaml: line 1: user_rate.limit: "100" is not a limit: write it like 100/minute or 100/10m`)
	f("user_rate: {limit: 100/minuet}", `weir.yaml: line 1: user_rate.limit: unknown unit "minuet": did you mean "minute"?`)
	f("user_rate: {limit: 0/s}", `weir.yaml: line 1: user_rate.limit: "0/s": the count must be between 1 and 2^53; to switch a limiter off set its mode to off`)
	f("user_rate: {limit: [1/s]}", `weir.yaml: line 1: user_rate.limit must have a single value: give one, or leave the key out`)
	f("user_rate: {mode: sahdow}", `weir.yaml: line 1: user_rate.mode: unknown mode "sahdow": did you mean "shadow"?`)
	f("user_rate: [1]", `weir.yaml: line 1: "user_rate" must hold keys and values`)
	f("off: yes", `weir.yaml: line 1: off: "yes": write true or false`)
	f("user: []", `weir.yaml: line 1: user must be a list of words: give one, or leave the key out`)
	f("user: [{a: b}]", `weir.yaml: line 1: user: each must be a single word`)
	f("a: [", "weir.yaml: not YAML: line 1: did not find expected node content")
	f("off: true\n---\noff: true", "weir.yaml holds more than one document: keep the first")
	f(strings.Repeat("#", 65<<10), "weir.yaml is larger than 65536 bytes: these options take a few lines")
}

func TestValidation(t *testing.T) {
	f := func(o shed.Options, want string) {
		t.Helper()
		if _, err := shed.New(o); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	second := func(n int64) shed.Rate { return shed.Rate{Count: n, Period: time.Second} }
	f(shed.Options{UserRate: shed.RateOptions{Burst: 5}}, "shed: user_rate.burst 5 has no limit: add user_rate.limit such as 100/second")
	f(shed.Options{UserConcurrency: shed.ConcurrencyOptions{Limit: 10_001}}, "shed: user_concurrency.limit 10001 must be between 1 and 10000; to have none leave it out")
	f(shed.Options{UserConcurrency: shed.ConcurrencyOptions{TTL: time.Millisecond}}, "shed: user_concurrency.ttl 1ms must be at least 1s, or front ends have no time to renew: 30s is usual")
	f(shed.Options{FleetShare: shed.FleetOptions{Limit: second(1)}}, "shed: fleet_share.headroom 20% of 1/second leaves nothing to other than critical requests: keep less")
	f(shed.Options{FleetShare: shed.FleetOptions{Limit: second(100), Reserve: shed.Percent(100)}}, "shed: fleet_share.headroom 100% of 100/second leaves nothing to other than critical requests: keep less")
	f(shed.Options{InFlight: shed.InFlightOptions{Limit: 10, Shares: shed.Shares{Sheddable: shed.Percent(95)}}},
		"shed: in_flight.shares.sheddable 95% is larger than the 90% of default: the class that matters less must be refused first")
	f(shed.Options{InFlight: shed.InFlightOptions{Limit: 1<<20 + 1, RetryAfter: 1500 * time.Millisecond}},
		"shed: in_flight.retry_after 1.5s must be whole seconds between 1s and 1h\nin_flight.limit 1048577 must be between 1 and 1048576; to have none leave it out")
	f(shed.Options{User: []string{""}}, `shed: user[0] "" is not the key of an entry: write one such as user or remote_address`)
	f(shed.Options{Name: "a\nb"}, `shed: name "a\nb": write at most 256 bytes without control characters`)
	f(shed.Options{UserRate: shed.RateOptions{Mode: 7}}, "shed: user_rate.mode 7 is none: use Enforce, Shadow or Off")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("a: &a {b: *a}"))
	f.Add([]byte("user: &u [x]\nin_flight: *u"))
	f.Add([]byte("user_rate: &r\n  limit: 1/s\n  ? [x]\n  : 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := shed.Parse(data, "fuzz")
		if err != nil {
			return
		}
		// Whatever New makes of it, it does not panic, and says something.
		if _, err := shed.New(o); err != nil && len(err.Error()) < 10 {
			t.Error(err)
		}
	})
}

// TestDocumentedOptions reads the example of the page.
func TestDocumentedOptions(t *testing.T) {
	page, err := os.ReadFile("../docs/how-to/load-shedding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no example")
	}
	var file struct{ Shed *shed.Options }
	if err := yaml.Unmarshal([]byte(text), &file); err != nil || file.Shed == nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	o := *file.Shed
	if _, err := shed.New(o); err != nil || o.InFlight.Limit == 0 || o.FleetShare.Limit.Count == 0 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, name := range shed.Settings() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("setting %s is not on the page", name)
		}
	}
}
