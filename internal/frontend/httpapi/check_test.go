package httpapi_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// named gives a limit a name.
func named(name string, l *weir.Limit) *weir.Limit {
	l.Name = name
	return l
}

// problem is a problem document.
type problem struct {
	Type, Title, Detail string
	Status              int
	Errors              []struct{ Pointer, Parameter, Detail string }
}

// rejected checks that body is answered by status with a pointer, or the name of a parameter,
// and a detail.
func rejected(t *testing.T, url, path, body string, status int, pointer, detail string) {
	t.Helper()
	got, answer := post(t, url, path, body)
	var p problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		t.Fatalf("%.120s: %v in %s", body, err, answer)
	}
	if pointer == "" {
		if got != status || len(p.Errors) != 0 || !strings.Contains(p.Detail, detail) {
			t.Errorf("%.120s: got %d %s, want %d: %s", body, got, answer, status, detail)
		}
		return
	}
	if got != status || len(p.Errors) != 1 || cmp.Or(p.Errors[0].Pointer, p.Errors[0].Parameter) != pointer || !strings.Contains(p.Errors[0].Detail, detail) {
		t.Errorf("%.120s: got %d %s, want %d at %s: %s", body, got, answer, status, pointer, detail)
	}
}

func TestCheck(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{
		named("permin", weir.PerMinute(3, algorithm.FixedWindow)),
		named("bucket", weir.PerSecond(4, algorithm.TokenBucket)),
	}, httpapi.Options{})
	f := func(body, want string) {
		t.Helper()
		if status, got := post(t, srv.URL, "/v1/check", body); status != 200 || got != want {
			t.Errorf("%s:\ngot %d %s\nwant    %s", body, status, got, want)
		}
	}
	const permin = `{"name":"permin","count":3,"burst":3,"period":60,"algorithm":"fixed_window"}`
	const bucket = `{"name":"bucket","count":4,"burst":4,"period":1,"algorithm":"token_bucket"}`
	const guarantee = `"guarantee":{"exact":false,"at_most":6,"over_admit":0,"envelope":6,"source":"store","degraded":false}`
	f(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]}],"cost":2}`,
		`{"allowed":true,"soft":false,"borrowed":false,"delay":0,"limit":`+permin+`,"remaining":1,"retry_after":0,"reset_after":40,`+guarantee+
			`,"limits":[{"limit":`+permin+`,"role":"enforce","cost":2,"allowed":true,"charged":true,"remaining":1,"retry_after":0,"reset_after":40},`+
			`{"limit":`+bucket+`,"role":"enforce","cost":2,"allowed":true,"charged":true,"remaining":2,"retry_after":0,"reset_after":0.5}]}`)
	// Refused by one: not counted by the other. 2 units are back in the bucket
	// by then, so the wait is the window's.
	store.Advance(time.Second)
	f(`{"descriptors":[{"entries":{"user":"ann"},"cost":2}]}`,
		`{"allowed":false,"soft":false,"borrowed":false,"delay":0,"limit":`+permin+`,"remaining":1,"retry_after":39,"reset_after":39,`+guarantee+
			`,"limits":[{"limit":`+permin+`,"role":"enforce","cost":2,"allowed":false,"charged":false,"remaining":1,"retry_after":39,"reset_after":39},`+
			`{"limit":`+bucket+`,"role":"enforce","cost":2,"allowed":true,"charged":false,"remaining":4,"retry_after":0,"reset_after":0}]}`)
	// Never is null.
	status, got := post(t, srv.URL, "/v1/check", `{"descriptors":[{"entries":{"user":"ann"}}],"cost":9007199254740992}`)
	if status != 200 || !strings.Contains(got, `"allowed":false`) || !strings.Contains(got, `"retry_after":null`) {
		t.Errorf("got %d %s", status, got)
	}
}

func TestPeekSpendsNothing(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{named("permin", weir.PerMinute(3, algorithm.FixedWindow))}, httpapi.Options{})
	remaining := func(path, body string, want string) {
		t.Helper()
		_, got := post(t, srv.URL, path, body)
		if !strings.Contains(got, `"remaining":`+want+`,"retry_after":0,"reset_after"`) {
			t.Errorf("%s %s: got %s, want %s remaining", path, body, got, want)
		}
	}
	for range 3 {
		remaining("/v1/peek", `{"descriptors":[{"entries":{"user":"ann"}}]}`, "3")
		remaining("/v1/check", `{"descriptors":[{"entries":{"user":"ann"}}],"peek":true}`, "3")
		remaining("/v1/check", `{"descriptors":[{"entries":{"user":"ann"}}],"cost":0}`, "3")
		remaining("/v1/check", `{"descriptors":[{"entries":{"user":"ann"},"cost":0}]}`, "3")
		remaining("/v1/check", `{"descriptors":[{"entries":{"user":"ann"},"peek":true}]}`, "3")
	}
	remaining("/v1/check", `{"descriptors":[{"entries":{"user":"ann"}}],"peek":null,"cost":null,"lease":null,"priority":null,"domain":null}`, "2")
	if _, got := post(t, srv.URL, "/v1/peek", `{"descriptors":[{"entries":{"user":"ann"}}],"cost":3}`); !strings.Contains(got, `"allowed":false`) {
		t.Errorf("a peek at 3 of 2 is allowed: %s", got)
	}
}

func TestModesAreTold(t *testing.T) {
	soft := named("soft", weir.PerMinute(1, algorithm.FixedWindow))
	soft.Excess = 100
	pool := named("pool", weir.PerMinute(2, algorithm.FixedWindow))
	elastic := named("elastic", weir.PerMinute(1, algorithm.FixedWindow))
	elastic.Mode = weir.Mode{Pool: pool, PoolKey: "all"}
	queue := named("queue", weir.PerSecond(1, algorithm.LeakyQueue))

	const body = `{"descriptors":[{"entries":{"user":"ann"}}]}`
	f := func(l *weir.Limit, want ...string) {
		t.Helper()
		srv := serve(t, clocked.New(t), weir.Limits{l}, httpapi.Options{})
		for i, w := range want {
			_, got := post(t, srv.URL, "/v1/check", body)
			if !strings.HasPrefix(got, w) {
				t.Errorf("%s, check %d: got %s, want %s", l.Name, i+1, got, w)
			}
		}
	}
	f(soft, `{"allowed":true,"soft":false,"borrowed":false,"delay":0,`, `{"allowed":true,"soft":true,"borrowed":false,"delay":0,`,
		`{"allowed":false,"soft":false,"borrowed":false,"delay":0,`)
	f(elastic, `{"allowed":true,"soft":false,"borrowed":false,"delay":0,`, `{"allowed":true,"soft":false,"borrowed":true,"delay":0,`,
		`{"allowed":false,"soft":false,"borrowed":false,"delay":0,`)
	f(queue, `{"allowed":true,"soft":false,"borrowed":false,"delay":0,`, `{"allowed":true,"soft":false,"borrowed":false,"delay":1,`)
}

func TestBatch(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{named("permin", weir.PerMinute(2, algorithm.FixedWindow))}, httpapi.Options{})
	const ann, bob = `{"descriptors":[{"entries":{"user":"ann"}}]}`, `{"descriptors":[{"entries":{"user":"bob"}}]}`
	status, got := post(t, srv.URL, "/v1/check", `{"checks":[`+ann+`,`+bob+`,`+ann+`,`+ann+`]}`)
	var answer struct {
		Results []struct {
			Allowed   bool
			Remaining int
		}
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil || status != 200 {
		t.Fatalf("got %d %s: %v", status, got, err)
	}
	if fmt.Sprint(answer.Results) != "[{true 1} {true 1} {true 0} {false 0}]" {
		t.Errorf("got %v", answer.Results)
	}

	many := `{"checks":[` + strings.Repeat(bob+",", 999) + bob + `]}`
	if status, got := post(t, srv.URL, "/v1/check", many); status != 200 || strings.Count(got, `"allowed":true,"soft"`) != 1 {
		t.Errorf("a thousand: got %d with %d allowed, want 1", status, strings.Count(got, `"allowed":true,"soft"`))
	}
	rejected(t, srv.URL, "/v1/check", `{"checks":[`+strings.Repeat(bob+",", 1000)+bob+`]}`, 400, "#/checks/1000", "at most 1000")
}

// TestBatchIsCountedWholeOrNot: whatever is wrong with one check, none of the
// others is counted.
func TestBatchIsCountedWholeOrNot(t *testing.T) {
	store := clocked.New(t)
	conc := named("conc", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 5, Period: time.Minute})
	reserving := named("reserving", weir.PerMinute(weir.MaxCost, algorithm.FixedWindow))
	reserving.Headroom = []int64{0, 100}
	permin := named("permin", weir.PerMinute(2, algorithm.FixedWindow))
	srv := serve(t, store, weir.Limits{permin, conc, reserving}, httpapi.Options{})
	const good = `{"descriptors":[{"entries":{"user":"ann"}}],"lease":"a"}`
	f := func(bad string, pointer, detail string) {
		t.Helper()
		rejected(t, srv.URL, "/v1/check", `{"checks":[`+good+`,`+bad+`]}`, 400, pointer, detail)
		if n := store.Stats().Keys; n != 0 {
			t.Fatalf("%s: %d keys were counted", bad, n)
		}
	}
	f(`{}`, "#/checks/1/descriptors", "missing")
	f(`7`, "#/checks/1", "must be an object, is a number")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"cost":1.5}`, "#/checks/1/cost", "whole number")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"cost":-1}`, "#/checks/1/cost", "from 0 to 9007199254740992")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"cost":9007199254740993}`, "#/checks/1/cost", "from 0 to")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"cost":99999999999999999999999}`, "#/checks/1/cost", "from 0 to")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"hits":1}`, "#/checks/1/hits", "known are domain, descriptors, cost, priority, peek, lease")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"checks":[]}`, "#/checks/1/checks", "unknown")
	// These are seen only when the rules are asked.
	f(`{"descriptors":[{"entries":{"user":"ann"}}]}`, "#/checks/1/lease", "concurrency")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"lease":"b","priority":1,"cost":9007199254740992}`, "#/checks/1/cost", "higher priorities")

	// The store fails at the second: the first is given back.
	store.Fail = errors.New("disk on fire")
	store.FailAfter.Store(1)
	if status, got := post(t, srv.URL, "/v1/check", `{"checks":[`+good+`,`+good+`]}`); status != 503 {
		t.Errorf("got %d %s", status, got)
	}
}

func TestBatchIsGivenBackWhenTheStoreFails(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{named("permin", weir.PerMinute(5, algorithm.FixedWindow))}, httpapi.Options{})
	const ann = `{"descriptors":[{"entries":{"user":"ann"}}]}`
	store.Fail = errors.New("disk on fire")
	store.FailOnce = true
	store.FailAfter.Store(2)
	if status, got := post(t, srv.URL, "/v1/check", `{"checks":[`+ann+`,`+ann+`,`+ann+`]}`); status != 503 {
		t.Fatalf("got %d %s", status, got)
	}
	if _, got := post(t, srv.URL, "/v1/peek", ann); !strings.Contains(got, `"remaining":5,`) {
		t.Errorf("two units were not given back: %s", got)
	}
}

func TestCheckBadInput(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{named("permin", weir.PerMinute(2, algorithm.FixedWindow))}, httpapi.Options{})
	f := func(body, pointer, detail string) {
		t.Helper()
		rejected(t, srv.URL, "/v1/check", body, 400, pointer, detail)
	}
	f(`{"descriptors":[]}`, "#/descriptors", "must not be empty")
	f(`{"descriptors":null}`, "#/descriptors", "must be an array, is null")
	f(`{"descriptors":[{}]}`, "#/descriptors/0/entries", "is missing")
	f(`{"descriptors":[{"entries":[]}]}`, "#/descriptors/0/entries", "must not be empty")
	f(`{"descriptors":[{"entries":{}}]}`, "#/descriptors/0/entries", "must not be empty")
	f(`{"descriptors":[{"entries":"x"}]}`, "#/descriptors/0/entries", "must be an array, is a string")
	f(`{"descriptors":[{"entries":[{"value":"x"}]}]}`, "#/descriptors/0/entries/0/key", "is missing")
	f(`{"descriptors":[{"entries":[{"key":"a"},{"key":""}]}]}`, "#/descriptors/0/entries/1/key", "must not be empty")
	f(`{"descriptors":[{"entries":[{"key":"a","Value":"x"}]}]}`, "#/descriptors/0/entries/0/Value", "known are key and value")
	f(`{"descriptors":[{"entries":{"a":1}}]}`, "#/descriptors/0/entries/a", "must be a string, is a number")
	f(`{"descriptors":[{"entries":{"a":"1","a":"2"}}]}`, "#/descriptors/0/entries/a", "twice")
	f(`{"descriptors":[{"entries":{"a":"1"},"entries":{"a":"1"}}]}`, "#/descriptors/0/entries", "twice")
	f(`{"descriptors":[{"entries":{"a":"`+strings.Repeat("x", 1025)+`"}}]}`, "#/descriptors/0/entries/a", "at most 1024 bytes")
	f(`{"descriptors":[{"entries":{"`+strings.Repeat("k", 257)+`":""}}]}`, "#/descriptors/0/entries/"+strings.Repeat("k", 64), "from 1 to 256")
	f(`{"descriptors":[`+strings.Repeat(`{"entries":{"a":"1"}},`, 64)+`{"entries":{"a":"1"}}]}`, "#/descriptors/64", "at most 64")
	f(`{"descriptors":[{"entries":[`+strings.Repeat(`{"key":"a"},`, 32)+`{"key":"a"}]}]}`, "#/descriptors/0/entries/32", "at most 32")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"domain":""}`, "#/domain", "must not be empty")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"peek":"yes"}`, "#/peek", "must be true or false, is a string")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"priority":-1}`, "#/priority", "from 0 to 1000")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"cost":"1"}`, "#/cost", "must be a number, is a string")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"cost":1e3}`, "#/cost", "without a point or exponent")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"cost":007}`, "#/cost", "leading zero")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"cost":+7}`, "#/cost", "not valid JSON")
	for _, cost := range []string{"1e400", "1e0", "1.0", "-0.0", "-0e0"} {
		f(`{"descriptors":[{"entries":{"a":"1"}}],"cost":`+cost+`}`, "#/cost", "without a point or exponent")
	}
	for _, cost := range []string{"-1", "9007199254740993", "9223372036854775808", "18446744073709551617", "-9223372036854775809", strings.Repeat("9", 400)} {
		f(`{"descriptors":[{"entries":{"a":"1"}}],"cost":`+cost+`}`, "#/cost", "must be from 0 to")
		f(`{"descriptors":[{"entries":{"a":"1"},"cost":`+cost+`}]}`, "#/descriptors/0/cost", "must be from 0 to")
	}
	for _, member := range []string{"domain", "cost", "priority", "lease", "peek", "strict"} {
		f(`{"descriptors":[{"entries":{"a":"1"}}],"`+member+`":null,"`+member+`":null}`, "#/"+member, "twice")
		f(`{"descriptors":[{"entries":{"a":"1"}}],"`+strings.ToUpper(member)+`":null}`, "#/"+strings.ToUpper(member), "unknown")
	}
	f(`{"cost":null,"descriptors":[{"entries":{"a":"1"}}],"cost":0}`, "#/cost", "twice")
	f(`{"descriptors":[{"entries":{"a":"1"},"cost":null,"cost":0}]}`, "#/descriptors/0/cost", "twice")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"c\u006fst":1,"cost":0}`, "#/cost", "twice")
	f(`{"descriptors":[{"entries":{"a":"1"}}]}{}`, "#", "want nothing more")
	f("{\"descriptors\":[{\"entries\":{\"a\":\"1\"}}]}\x00", "#", "want nothing more")
	f("\xef\xbb\xbf{\"descriptors\":[{\"entries\":{\"a\":\"1\"}}]}", "#", "want an object")
	f("\x1f\x8b\x08", "#", "want an object") // as gzip begins
	rejected(t, srv.URL, "/v1/check?cost=0", `{"descriptors":[{"entries":{"a":"1"}}]}`, 400, "query", "takes none")
	f(`{"descriptors":[{"entries":{"a":"1"}}],"limit":"x"}`, "#/limit", "unknown")
	f(`{"checks":[]}`, "#/checks", "must not be empty")
	f(`{"checks":null}`, "#/checks", "must be an array, is null")
	f(`{"cost":1,"checks":[{"descriptors":[{"entries":{"a":"1"}}]}]}`, "#/cost", "not beside it")
	f(strings.Repeat(`{"descriptors":`, 20), "#/descriptors", "must be an array")
	f(`{"checks":[[[[[[[[[[[[[[[[[[[[`, "#/checks/0", "must be an object, is an array")
	rejected(t, srv.URL, "/v1/check", `{"checks":[`+strings.Repeat(" ", 1<<20)+`]}`, 413, "#", "too large")
	if n := store.Stats().Keys; n != 0 {
		t.Errorf("%d keys were counted", n)
	}
}
