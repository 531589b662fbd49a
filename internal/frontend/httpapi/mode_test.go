package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// modes is the answer of /v1/admin/mode and /v1/admin/modes.
type modes struct {
	Limits []struct {
		Rule, Limit, Mode, Rules string
		Percent                  int64
		Changed                  *struct{ Until, By, Reason, YAML string }
		Counts                   map[string]int64
	}
	Waiting []struct{ Rule, Limit string }
	YAML    *string
}

// audit is the answer of /v1/admin/audit.
type audit struct {
	Changes []struct {
		Number                                                     int64
		Action, By, Node, Reason, Rule, Limit, Before, After, YAML string
		Entries                                                    []weir.Entry
	}
	Before *int64
}

// told gets a path as an operator.
func told[T any](t *testing.T, srv *server, method, path, query, body string) T {
	t.Helper()
	var out T
	got, status := query, 0
	if method == "GET" {
		res, text := exchange(t, "GET", srv.URL, path+query, "", bearer)
		got, status = text, res.StatusCode
	} else {
		res, text := exchange(t, method, srv.URL, path, body, bearer)
		got, status = text, res.StatusCode
	}
	if err := json.Unmarshal([]byte(got), &out); err != nil || status != 200 {
		t.Fatalf("%s %s %s: got %d %s", path, query, body, status, got)
	}
	return out
}

func modeServer(t *testing.T) (*clocked.Store, *server) {
	t.Helper()
	store := clocked.New(t)
	shadow := named("permin", weir.PerMinute(3, algorithm.TokenBucket))
	shadow.Shadow = true
	return store, serve(t, store, weir.Limits{shadow, named("perhour", weir.PerHour(500, algorithm.FixedWindow))}, httpapi.Options{AdminToken: token})
}

func TestMode(t *testing.T) {
	store, srv := modeServer(t)
	for range 5 {
		srv.allowed(t, true)
	}
	got := told[modes](t, srv, "POST", "/v1/admin/mode", "", `{"rule":"token_bucket","mode":"enforce","seconds":60,"reason":"it went well"}`)
	if l := got.Limits; len(l) != 1 || l[0].Limit != "permin" || l[0].Mode != "enforce" || l[0].Percent != 100 || l[0].Rules != "shadow" ||
		l[0].Changed.Until != "2023-11-14T22:14:20Z" || l[0].Changed.Reason != "it went well" || l[0].Changed.By != "admin token from 127.0.0.1" ||
		l[0].Counts["allowed"] != 3 || l[0].Counts["shadow_refused"] != 2 || !strings.Contains(*got.YAML, "\nmode: hard\n# ") {
		t.Errorf("got %+v", got)
	}
	srv.allowed(t, false)
	s := administer(t, srv, "inspect", `{"descriptors":[{"entries":{"user":"ann"}}]}`)
	if s.Allowed || len(s.Modes) != 1 || s.Modes[0].Limit != "permin" {
		t.Errorf("inspect: %+v", s)
	}
	_, text := exchange(t, "POST", srv.URL, "/v1/explain", `{"descriptors":[{"entries":{"user":"ann"}}]}`, bearer)
	if !strings.Contains(text, `"modes":[{"domain":"api","rule":"token_bucket","limit":"permin","mode":"enforce","percent":100,"rules":"shadow","until":"2023-11-14T22:14:20Z"`) {
		t.Errorf("explain: %s", text)
	}
	store.Advance(time.Minute)
	srv.allowed(t, true)

	// By the name of the limit, for a share, and off: told though it is not asked.
	for _, body := range []string{`{"domain":"api","rule":"permin","mode":"enforce","percent":1,"seconds":0,"reason":"x"}`, `{"rule":"token_bucket","limit":"permin","mode":"off","reason":"x"}`} {
		told[modes](t, srv, "POST", "/v1/admin/mode", "", body)
	}
	if s = administer(t, srv, "inspect", `{"descriptors":[{"entries":{"user":"ann"}}]}`); len(s.Limits) != 1 || len(s.Modes) != 1 {
		t.Errorf("off: %+v", s)
	}
	if got := told[modes](t, srv, "GET", "/v1/admin/modes", "", ""); len(got.Limits) != 1 || got.Limits[0].Mode != "off" || got.YAML != nil {
		t.Errorf("modes: %+v", got)
	}
	for query, want := range map[string]int{"?domain=api": 2, "?limit=perhour": 1, "?rule=fixed_window": 1, "?domain=other": 0, "?rule=permin&domain=api&limit=permin": 1} {
		if got := told[modes](t, srv, "GET", "/v1/admin/modes", query, ""); len(got.Limits) != want {
			t.Errorf("modes%s: %+v, want %d", query, got, want)
		}
	}
	for range 2 { // taken back, and again
		if got := told[modes](t, srv, "POST", "/v1/admin/mode", "", `{"rule":"token_bucket","mode":"none"}`); got.Limits[0].Mode != "shadow" || got.Limits[0].Changed != nil || *got.YAML != "" {
			t.Errorf("none: %+v", got)
		}
	}
	if got := told[modes](t, srv, "GET", "/v1/admin/modes", "", ""); len(got.Limits) != 0 {
		t.Errorf("modes: %+v", got)
	}
}

// What is not as it should be is answered with a pointer and a cure, and changes
// nothing.
func TestHostileMode(t *testing.T) {
	_, srv := modeServer(t)
	f := func(body, pointer, detail string) {
		t.Helper()
		res, got := exchange(t, "POST", srv.URL, "/v1/admin/mode", body, bearer)
		var p problem
		if err := json.Unmarshal([]byte(got), &p); err != nil || res.StatusCode != 400 || len(p.Errors) != 1 ||
			p.Errors[0].Pointer != pointer || !strings.Contains(p.Errors[0].Detail, detail) {
			t.Errorf("%.100s: got %d %s, want 400 at %s: %s", body, res.StatusCode, got, pointer, detail)
		}
	}
	const rest = `"rule":"token_bucket","reason":"x"`
	f(`{}`, "#/rule", "is missing")
	f(`{`+rest+`}`, "#/mode", "is missing")
	f(`{`+rest+`,"mode":"of"}`, "#/mode", `did you mean "off"?`)
	f(`{`+rest+`,"mode":"enforce","percent":0}`, "#/percent", "from 1 to 100")
	f(`{`+rest+`,"mode":"enforce","percent":101}`, "#/percent", "from 1 to 100")
	f(`{`+rest+`,"mode":"enforce","percent":1.5}`, "#/percent", "whole number")
	f(`{`+rest+`,"mode":"enforce","percent":"10%"}`, "#/percent", "a number")
	f(`{`+rest+`,"mode":"shadow","percent":10}`, "#/percent", "is for the mode enforce")
	f(`{`+rest+`,"mode":"none","seconds":10}`, "#/seconds", "none goes alone")
	f(`{`+rest+`,"mode":"off","seconds":-1}`, "#/seconds", "from 0")
	f(`{`+rest+`,"mode":"off","seconds":999999999999}`, "#/seconds", "from 0 to 316224000")
	f(`{`+rest+`,"mode":"off","percnt":1}`, "#/percnt", "unknown field; known are domain, rule")
	f(`{`+rest+`,"mode":"off","mode":"off"}`, "#/mode", "is there twice")
	f(`{"rule":"token_bucket","mode":"off","reason":"`+strings.Repeat("x", 1025)+`"}`, "#/reason", "1024")
	f(`{"rule":"`+strings.Repeat("x", 8193)+`","mode":"off","reason":"x"}`, "#/rule", "8192")
	f(`{"rule":"tokn_bucket","mode":"off","reason":"x"}`, "#/rule", `did you mean "token_bucket"?`)
	f(`{"rule":"zzz","mode":"off","reason":"x"}`, "#/rule", `there are "token_bucket", "permin", "fixed_window", "perhour"`)
	f(`{"rule":"zzz","mode":"none","reason":"x"}`, "#/rule", `there is no rule or limit "zzz"`)
	f(`{"domain":"apy","rule":"token_bucket","mode":"off","reason":"x"}`, "#/domain", `did you mean "api"?`)
	f(`{"rule":"token_bucket","limit":"perhour","mode":"off","reason":"x"}`, "#/limit", `has no limit "perhour"`)
	f(`[]`, "#", "must be an object")
	f(`{`+rest+`,"mode":"off"}{}`, "#", "nothing more")
	f("{\"rule\":\"\xff\",\"mode\":\"off\",\"reason\":\"x\"}", "#/rule", "UTF-8")
	if res, _ := exchange(t, "POST", srv.URL, "/v1/admin/mode", `{"reason":"`+strings.Repeat("x", 70<<10)+`"}`, bearer); res.StatusCode != 413 {
		t.Errorf("a body of 70 KiB: got %d", res.StatusCode)
	}
	for _, c := range []struct{ path, query, parameter, detail string }{
		{"/v1/admin/modes", "?rule=tokenbucket", "rule", `did you mean "token_bucket"?`},
		{"/v1/admin/modes", "?rul=x", "rul", `unknown parameter (did you mean "rule"?)`},
		{"/v1/admin/modes", "?rule=a&rule=b", "rule", "is there twice"},
		{"/v1/admin/modes", "?rule=" + strings.Repeat("x", 9000), "rule", "8192"},
		{"/v1/rules", "?size=10001", "size", "from 1 to 10000"},
		{"/v1/rules", "?before=1", "before", "known are size, after"},
		{"/v1/admin/audit", "?size=0", "size", "from 1 to 1000"},
		{"/v1/admin/audit", "?limit=0", "limit", "from 1 to 1000"},
		{"/v1/admin/audit", "?limit=1001", "limit", "from 1 to 1000"},
		{"/v1/admin/audit", "?limit=ten", "limit", "whole number"},
		{"/v1/admin/audit", "?before=-1", "before", "from 1"},
		{"/v1/admin/audit", "?befor=1", "befor", `did you mean "before"?`},
	} {
		res, got := exchange(t, "GET", srv.URL, c.path+c.query, "", bearer)
		var p problem
		if err := json.Unmarshal([]byte(got), &p); err != nil || res.StatusCode != 400 || len(p.Errors) != 1 || p.Errors[0].Parameter != c.parameter || !strings.Contains(p.Errors[0].Detail, c.detail) {
			t.Errorf("%s%.60s: got %d %s, want %s: %s", c.path, c.query, res.StatusCode, got, c.parameter, c.detail)
		}
	}
	if got := told[audit](t, srv, "GET", "/v1/admin/audit", "", ""); len(got.Changes) != 0 || got.Before != nil {
		t.Errorf("something was changed: %+v", got)
	}
}

// A limit's name that two rules have means neither.
func TestModeByAnAmbiguousName(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{named("same", weir.PerMinute(3, algorithm.TokenBucket)), named("same", weir.PerHour(500, algorithm.FixedWindow))}, httpapi.Options{AdminToken: token})
	res, got := exchange(t, "POST", srv.URL, "/v1/admin/mode", `{"rule":"same","mode":"off","reason":"x"}`, bearer)
	if res.StatusCode != 400 || !strings.Contains(got, `limits of several rules are called \"same\"; there are \"token_bucket\", \"fixed_window\"`) {
		t.Errorf("got %d %s", res.StatusCode, got)
	}
}

// Every change tells what to start from in the rules file, and is in the history
// with its reason.
func TestAudit(t *testing.T) {
	store, srv := modeServer(t)
	const ann = `"descriptors":[{"entries":{"user":"ann"}}],"limit":"perhour"`
	for range 3 {
		srv.allowed(t, true)
	}
	for _, c := range []struct{ path, body, yaml string }{
		{"ban", `,"seconds":60`, `overrides: {"ann": {limit: 0, mode: hard}}`},
		{"ban", `,"seconds":0`, ``},
		{"allow", `,"seconds":60`, `overrides: {"ann": unlimited}`},
		{"allow", `,"seconds":0`, ``},
		{"override", `,"rate":"50/hour"`, `overrides: {"ann": 50/hour}`},
		{"override", `,"rate":"none"`, ``},
		{"grant", `,"units":2`, ``},
		{"reset", ``, ``},
	} {
		if s := administer(t, srv, c.path, `{`+ann+c.body+`,"reason":"for `+c.path+`"}`); s.YAML == nil || (*s.YAML == "") != (c.yaml == "") || !strings.Contains(*s.YAML, c.yaml) {
			t.Errorf("%s%s amounts to %+v, want %s", c.path, c.body, s.YAML, c.yaml)
		}
		store.Advance(time.Second)
	}
	administer(t, srv, "reset", `{`+ann+`}`)
	administer(t, srv, "reset", `{`+ann+`,"reason":null}`)
	told[modes](t, srv, "POST", "/v1/admin/mode", "", `{"rule":"fixed_window","mode":"shadow","reason":"for mode"}`)
	res, got := exchange(t, "POST", srv.URL, "/v1/admin/ban", `{`+ann+`,"seconds":1,"reason":"`+strings.Repeat("x", 1025)+`"}`, bearer)
	if res.StatusCode != 400 || !strings.Contains(got, "#/reason") {
		t.Errorf("a long reason: got %d %s", res.StatusCode, got)
	}

	all := told[audit](t, srv, "GET", "/v1/admin/audit", "", "")
	slices.Reverse(all.Changes)
	want := [][4]string{
		{"ban", "not banned", "banned until 2023-11-14T22:14:20Z", "for ban"}, {"unban", "banned until 2023-11-14T22:14:20Z", "not banned", "for ban"},
		{"allow", "limited", "always let through until 2023-11-14T22:14:22Z", "for allow"}, {"disallow", "always let through until 2023-11-14T22:14:22Z", "limited", "for allow"},
		{"override", "500/hour", "50/hour", "for override"}, {"override", "50/hour", "500/hour", "for override"},
		{"grant", "497 left", "499 left, after 2 were given back", "for grant"}, {"reset", "499 left", "untouched", "for reset"},
		{"reset", "500 left", "untouched", ""}, {"reset", "500 left", "untouched", ""}, {"mode", "enforce by the rules", "shadow", "for mode"},
	}
	if len(all.Changes) != len(want) {
		t.Fatalf("%d changes: %+v", len(all.Changes), all)
	}
	for i, c := range all.Changes {
		if [4]string{c.Action, c.Before, c.After, c.Reason} != want[i] || c.By != "admin token from 127.0.0.1" || c.Node != "n1" || c.Number != int64(i+1) ||
			c.Limit != "perhour" || (c.Action != "mode") != (len(c.Entries) == 1 && c.Entries[0] == weir.Entry{Key: "user", Value: "ann"}) {
			t.Errorf("change %d is %+v, want %v", i, c, want[i])
		}
	}
	// By pages.
	var numbers []int64
	for before := int64(0); ; {
		query := "?limit=4"
		if before > 0 {
			query += fmt.Sprint("&before=", before)
		}
		page := told[audit](t, srv, "GET", "/v1/admin/audit", query, "")
		for _, c := range page.Changes {
			numbers = append(numbers, c.Number)
		}
		if page.Before == nil {
			break
		}
		before = *page.Before
	}
	if len(numbers) != len(want) || !slices.IsSortedFunc(numbers, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("by pages: %v", numbers)
	}
}
