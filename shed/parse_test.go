package shed_test

import (
	"encoding"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/shed"
)

// parsed is a value as a configuration file has it.
func parsed[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) (v T, err error) {
	err = P(&v).UnmarshalText([]byte(text))
	return v, err
}

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
		got, err := parsed[shed.Rate](s)
		want, wantErr := period.ParseRate(s)
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
		if again, err := parsed[shed.Rate](got.String()); err != nil || again != got {
			t.Errorf("%q is written %s, which is read as %v, %v", s, got, again, err)
		}
	})
}

func TestParseShare(t *testing.T) {
	for n := range 101 {
		s, err := parsed[shed.Share](fmt.Sprintf("%d%%", n))
		if err != nil || s != shed.Percent(n) || s.IsZero() || s.String() != fmt.Sprintf("%d%%", n) {
			t.Errorf("%d%%: got %s, %v", n, s, err)
		}
	}
	for _, s := range []string{"", "%", "20", "101%", "-1%", "1.5%", "x%", "0x1%", strings.Repeat("0", 300) + "%"} {
		if got, err := parsed[shed.Share](s); err == nil || !strings.Contains(err.Error(), "is not a share") {
			t.Errorf("%q: got %s, %v", s, got, err)
		}
	}
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
