package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/shed"
)

const operatorToken = "0123456789abcdef"

// An operator sees how load shedding stands and changes it, all or nothing.
func TestShed(t *testing.T) {
	s, err := shed.New(shed.Options{
		UserRate:   shed.RateOptions{Limit: shed.Rate{Count: 5, Period: time.Minute}},
		InFlight:   shed.InFlightOptions{Limit: 10},
		FleetShare: shed.FleetOptions{Limit: shed.Rate{Count: 10, Period: time.Second}, Mode: shed.Shadow},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{Shed: s, AdminToken: operatorToken})
	ask := func(method, body, token string) (int, string, shed.State) {
		t.Helper()
		res, got := exchange(t, method, srv.URL, "/v1/admin/shed", body, http.Header{"Authorization": {"Bearer " + token}})
		var st shed.State
		if res.StatusCode == 200 {
			if err := json.Unmarshal([]byte(got), &st); err != nil {
				t.Fatalf("%v: %s", err, got)
			}
		}
		return res.StatusCode, got, st
	}
	for _, method := range []string{"GET", "PATCH"} {
		if code, _, _ := ask(method, `{"off":true}`, "wrong"); code != 401 {
			t.Errorf("%s with a wrong token: %d", method, code)
		}
	}
	if code, _, st := ask("GET", "", operatorToken); code != 200 || st.Off || st.Settings["fleet_share"] != "shadow" || len(st.Limiters) != 4 {
		t.Errorf("at the start: %d %+v", code, st)
	}
	change := func(body string, want map[string]string) {
		t.Helper()
		code, got, st := ask("PATCH", body, operatorToken)
		if code != 200 {
			t.Errorf("%s: %d %s", body, code, got)
		}
		for name, value := range want {
			if st.Settings[name] != value || s.State().Settings[name] != value {
				t.Errorf("%s: %s is %q, want %q", body, name, st.Settings[name], value)
			}
		}
	}
	change(`{"off":true}`, map[string]string{"off": "true", "user_rate": "enforce"})
	change(`{"off":"false","fleet_share":"enforce","in_flight.limit":20}`, map[string]string{"off": "false", "fleet_share": "enforce", "in_flight.limit": "20"})
	change(`{"in_flight.shares.background":"0%","in_flight.limit":"1_000"}`, map[string]string{"in_flight.shares.background": "0%", "in_flight.limit": "1000"})

	before := s.State().Settings
	wrong := func(body, want string) {
		t.Helper()
		if code, got, _ := ask("PATCH", body, operatorToken); code != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want 400 with %q", body, code, got, want)
		}
	}
	wrong(`{}`, "names no setting; known are off, user_rate")
	wrong(`{"of":true}`, `unknown setting \"of\": did you mean \"off\"?`)
	wrong(`{"off":true,"user_rate":"shadows"}`, `did you mean \"shadow\"?`)
	wrong(`{"off":true,"off":false}`, "#/off: is there twice")
	wrong(`{"off":null}`, "#/off: must be a string")
	wrong(`{"in_flight.limit":1.5}`, "#/in_flight.limit: must be a whole number")
	wrong(`{"user_concurrency":"enforce"}`, "user_concurrency cannot be enforce: it has no limit")
	wrong(`{"in_flight.shares.critical":"10%"}`, "is larger than the")
	wrong(`[]`, "must be an object")
	wrong(``, "want an object")
	for name, value := range s.State().Settings {
		if before[name] != value {
			t.Errorf("%s was changed to %s by what was refused", name, value)
		}
	}
	res, _ := exchange(t, "POST", srv.URL, "/v1/admin/shed", "{}", nil)
	if res.StatusCode != 405 || res.Header.Get("Allow") != "GET, PATCH" {
		t.Errorf("POST: %d, Allow: %s", res.StatusCode, res.Header.Get("Allow"))
	}
}

func TestNoShed(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{AdminToken: operatorToken})
	for _, method := range []string{"GET", "PATCH"} {
		res, body := exchange(t, method, srv.URL, "/v1/admin/shed", "", http.Header{"Authorization": {"Bearer " + operatorToken}})
		if res.StatusCode != 501 || !strings.Contains(body, "load shedding") {
			t.Errorf("%s: %d %s", method, res.StatusCode, body)
		}
	}
}

// Checks that name no priority have the one of the options.
func TestPriorityOfChecksWithoutOne(t *testing.T) {
	opt := shed.Options{FleetShare: shed.FleetOptions{Limit: shed.Rate{Count: 10, Period: time.Hour}, Reserve: shed.Percent(50)}}
	f := func(priority int, path, body string, want int) {
		t.Helper()
		s, err := shed.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		srv := serveRules(t, clocked.New(t), limits.NewSet(s.Layer()), httpapi.Options{Priority: priority})
		passed := 0
		for range 12 {
			if _, got := post(t, srv.URL, path, body); strings.Contains(got, `"allowed":true`) {
				passed++
			}
		}
		if passed != want {
			t.Errorf("priority %d: %d of %s pass, want %d", priority, passed, body, want)
		}
	}
	const check = `{"descriptors":[{"entries":{"a":"b"}}]}`
	f(0, "/v1/check", check, 10)
	f(1, "/v1/check", check, 5)
	f(1, "/v1/check", `{"descriptors":[{"entries":{"a":"b"}}],"priority":0}`, 10)
	f(1, "/shouldAllowRequest", `{"clientId":"1"}`, 5)
}
