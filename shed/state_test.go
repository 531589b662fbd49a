package shed_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/shed"
)

func everything() shed.Options {
	o := all()
	o.UserRate.Mode = shed.Shadow
	o.InFlight.Limit = 10
	return o
}

func TestStateAsJSON(t *testing.T) {
	w := newWorld(t, everything())
	var p, q shed.Slot
	w.s.Enter(&p, shed.Critical)
	set(t, w.s, "in_flight", "shadow", "in_flight.shares.background", "0%")
	w.s.Enter(&q, shed.Background)
	w.decide(ask("ann", shed.Sheddable, "1"))
	got, err := json.MarshalIndent(w.s.State(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const zero = `"allowed":0,"refused":0,"shadow_refused":0`
	const one = `"allowed":1,"refused":0,"shadow_refused":0`
	want := `{"off":false,"limiters":[` +
		`{"name":"user_rate","mode":"shadow","limit":"10/second","burst":10,"classes":[{` + one + `}]},` +
		`{"name":"user_concurrency","mode":"enforce","limit":"2","ttl":30,"classes":[{` + one + `}]},` +
		`{"name":"fleet_share","mode":"enforce","limit":"100/second","headroom":20,"classes":[` +
		`{"class":"critical",` + zero + `},{"class":"default",` + zero + `},{"class":"sheddable",` + one + `},{"class":"background",` + zero + `}]},` +
		`{"name":"in_flight","mode":"shadow","limit":"10","in_flight":1,"shadow_in_flight":1,"classes":[` +
		`{"class":"critical","threshold":10,` + one + `},{"class":"default","threshold":9,` + zero + `},` +
		`{"class":"sheddable","threshold":7,` + zero + `},{"class":"background","threshold":0,"allowed":0,"refused":0,"shadow_refused":1}]}],` +
		`"unknown_users":0,"without_lease":0,"settings":{"fleet_share":"enforce","in_flight":"shadow","in_flight.limit":"10",` +
		`"in_flight.shares.background":"0%","in_flight.shares.critical":"100%","in_flight.shares.default":"90%","in_flight.shares.sheddable":"75%",` +
		`"off":"false","user_concurrency":"enforce","user_rate":"shadow"}}`
	var compact, again any
	if err := json.Unmarshal(got, &compact); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &again); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(compact) != fmt.Sprint(again) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestStateWithoutLimits: what is not there is off, and says so.
func TestStateWithoutLimits(t *testing.T) {
	got, err := json.Marshal(newShedder(t, shed.Options{}).State().Limiters)
	const want = `[{"name":"user_rate","mode":"off","limit":"","classes":[]},{"name":"user_concurrency","mode":"off","limit":"","classes":[]},` +
		`{"name":"fleet_share","mode":"off","limit":"","classes":[]},{"name":"in_flight","mode":"off","limit":"","in_flight":0,"shadow_in_flight":0,"classes":[]}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestSet(t *testing.T) {
	s := newShedder(t, everything())
	before := fmt.Sprint(s.State())
	f := func(want string, pairs ...string) {
		t.Helper()
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		err := s.Set(m)
		if err == nil || err.Error() != "shed: nothing was changed: "+want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if now := s.State(); now.Settings["user_rate"] != "shadow" || now.Settings["in_flight.limit"] != "10" || now.Off {
			t.Errorf("changed by %v: %+v", pairs, now.Settings)
		}
	}
	f(`unknown setting "fleet_shar": did you mean "fleet_share"?`, "fleet_shar", "off", "off", "true")
	f(`user_rate: unknown mode "on": choose one of enforce, shadow, off`, "user_rate", "on")
	f(`off: "yes": write true or false`, "off", "yes", "user_rate", "off")
	f(`in_flight.limit: 0 must be at least 1; to have none set in_flight to off`, "in_flight.limit", "0")
	f(`in_flight.limit: "x" is not a whole number`, "in_flight.limit", "x")
	f("in_flight.limit 2000000 must be between 1 and 1048576; to have none leave it out", "in_flight.limit", "2000000")
	f(`in_flight.shares.critical: "half" is not a share: write it like 20%`, "in_flight.shares.critical", "half")
	f("in_flight.shares.default 90% is larger than the 80% of critical: the class that matters less must be refused first", "in_flight.shares.critical", "80%")
	if now := fmt.Sprint(s.State().Limiters[0]); !strings.Contains(before, now) {
		t.Error("a refused change has changed something")
	}

	// Each setting of a state can be given back to Set.
	for name, value := range s.State().Settings {
		set(t, s, name, value)
	}
	if names := shed.Settings(); len(names) != len(s.State().Settings) || names[0] != "off" {
		t.Errorf("settings are %v", names)
	}

	// The kill switch leaves the modes as they are.
	set(t, s, "off", "true")
	set(t, s, "user_concurrency", "shadow")
	for _, l := range s.State().Limiters {
		if l.Mode != shed.Off {
			t.Errorf("%s is %s", l.Name, l.Mode)
		}
	}
	set(t, s, "off", "false")
	st := s.State()
	for i, want := range []shed.Mode{shed.Shadow, shed.Shadow, shed.Enforce, shed.Enforce} {
		if st.Limiters[i].Mode != want {
			t.Errorf("%s is %s, want %s", st.Limiters[i].Name, st.Limiters[i].Mode, want)
		}
	}

	s = newShedder(t, shed.Options{})
	f = func(want string, pairs ...string) {
		t.Helper()
		if err := s.Set(map[string]string{pairs[0]: pairs[1]}); err == nil || err.Error() != "shed: nothing was changed: "+want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	f("user_rate cannot be shadow: it has no limit; give it user_rate.limit in the configuration", "user_rate", "shadow")
	f("in_flight cannot be enforce: it has no limit; set in_flight.limit with it", "in_flight", "enforce")
	// The in-flight limiter can be made at run time, shares first.
	set(t, s, "in_flight.shares.background", "20%")
	set(t, s, "in_flight.limit", "10", "in_flight", "enforce")
	var held [3]shed.Slot
	if !s.Enter(&held[0], shed.Background) || !s.Enter(&held[1], shed.Background) || s.Enter(&held[2], shed.Background) {
		t.Error("two background requests of ten were to enter")
	}
}

func TestOffAtTheStart(t *testing.T) {
	o := everything()
	o.Off = true
	o.InFlight.Limit = 1
	s := newShedder(t, o)
	var p, q shed.Slot
	if !s.Enter(&p, shed.Default) || !s.Enter(&q, shed.Default) {
		t.Error("refused while off")
	}
	// Switched on it knows who is there.
	set(t, s, "off", "false")
	var r shed.Slot
	if s.Enter(&r, shed.Critical) {
		t.Error("what began while off is not counted")
	}
	p.Leave()
	q.Leave()
	if !s.Enter(&r, shed.Critical) {
		t.Error("refused with nobody there")
	}
}

// TestWithoutALimitItIsKnownWhoIsThere: a limit that is set at run time counts
// what began before.
func TestWithoutALimitItIsKnownWhoIsThere(t *testing.T) {
	s := newShedder(t, shed.Options{})
	var p, q shed.Slot
	s.Enter(&p, shed.Default)
	if got := *s.State().Limiters[3].InFlight; got != 1 {
		t.Errorf("%d under way, want 1", got)
	}
	set(t, s, "in_flight.limit", "1", "in_flight", "enforce")
	if s.Enter(&q, shed.Critical) {
		t.Error("entered a node that is full")
	}
	p.Leave()
	if !s.Enter(&q, shed.Critical) {
		t.Error("refused with nobody there")
	}
}

// TestSeriesAreMetrics scrapes what was counted.
func TestSeriesAreMetrics(t *testing.T) {
	o := everything()
	w := newWorld(t, o)
	m := metrics.New(metrics.Options{Limits: w.s.Refs})
	var places [8]shed.Slot
	for i := range places {
		w.s.Enter(&places[i], shed.Background) // 5 of 10
	}
	for range 12 { // 10 of the user's rate as a shadow, 2 at once
		w.decide(ask("ann", shed.Critical, "one"))
	}
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`{decision="allowed",domain="(shed)",limit="user_rate",rule="user_rate"} 10`,
		`{decision="shadow_refused",domain="(shed)",limit="user_rate",rule="user_rate"} 2`,
		`{decision="allowed",domain="(shed)",limit="user_concurrency",rule="user_concurrency"} 12`,
		`{decision="allowed",domain="(shed)",limit="fleet_share_critical",rule="fleet_share"} 12`,
		`{decision="refused",domain="(shed)",limit="fleet_share_background",rule="fleet_share"} 0`,
		`{decision="allowed",domain="(shed)",limit="in_flight_background",rule="in_flight"} 5`,
		`{decision="refused",domain="(shed)",limit="in_flight_background",rule="in_flight"} 3`,
	} {
		if !strings.Contains(rec.Body.String(), "weir_decisions_total"+want) {
			t.Errorf("no %s", want)
		}
	}
	if n := len(w.s.Refs()); n != 10 {
		t.Errorf("%d series, want 1, 1, 4 and 4", n)
	}
}

// Only decisions count, however often a request is looked at before, as each of a batch is.
func TestLooksAreNotCounted(t *testing.T) {
	w := newWorld(t, shed.Options{UserConcurrency: shed.ConcurrencyOptions{Limit: 1, TTL: time.Minute}, UserRate: shed.RateOptions{Limit: shed.Rate{Count: 10, Period: time.Second}}})
	for n := uint64(1); n < 4; n++ {
		for _, user := range []string{"", "ann"} {
			r := ask(user, shed.Default, "")
			for range 3 {
				w.lim.Match(r)
			}
			w.decide(r)
		}
		if st := w.s.State(); st.UnknownUsers != n || st.WithoutLease != n {
			t.Errorf("after %d decisions of each kind: %d unknown users, %d without a lease", n, st.UnknownUsers, st.WithoutLease)
		}
	}
}
