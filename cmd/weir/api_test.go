package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Reservations: an estimate is spent, the rest given back, once; and a node
// with the same key settles what another reserved, though its counters are its
// own.
func TestReserveAndCommit(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--limit", "100/hour by client_id using token_bucket", "WEIR_RESERVE_KEY_FILE=" + key}
	n := serve(t, args...)
	const who = `"descriptors":[{"entries":{"client_id":"1"}}]`
	remaining := func() int64 {
		t.Helper()
		_, body := post(t, n.http+"/v1/peek", `{`+who+`}`)
		var v struct{ Remaining int64 }
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return v.Remaining
	}
	code, body := post(t, n.http+"/v1/reserve", `{`+who+`,"cost":60}`)
	var res struct{ Handle string }
	if err := json.Unmarshal([]byte(body), &res); err != nil || code != 200 || res.Handle == "" {
		t.Fatalf("reserve: %d %s", code, body)
	}
	if got := remaining(); got != 40 {
		t.Errorf("%d left after reserving 60 of 100", got)
	}
	commit := `{"handle":"` + res.Handle + `","actual":10}`
	if code, body := post(t, n.http+"/v1/commit", commit); code != 200 {
		t.Errorf("commit: %d %s", code, body)
	}
	if got := remaining(); got != 90 {
		t.Errorf("%d left after committing 10 of 60", got)
	}
	if code, body := post(t, n.http+"/v1/commit", commit); code != 200 {
		t.Errorf("the same commit again: %d %s", code, body)
	}
	if code, body := post(t, n.http+"/v1/commit", strings.Replace(commit, "10}", "11}", 1)); code != 409 || !strings.Contains(body, "with 10") {
		t.Errorf("another commit: %d %s", code, body)
	}
	if got := remaining(); got != 90 {
		t.Errorf("%d left after a second commit", got)
	}
	if code, body := post(t, serve(t, args...).http+"/v1/commit", commit); code != 200 {
		t.Errorf("a node with the same key: %d %s", code, body)
	}
	if code, _ := post(t, serve(t, args[:2]...).http+"/v1/commit", commit); code == 200 {
		t.Error("a node with another key settled")
	}
}

// The example for language models, as its comment says: a place, a reservation,
// what was used, and the place again.
func TestExampleOfTokens(t *testing.T) {
	n := serve(t, "--rules", "../../examples/llm-tokens.yaml")
	ask := func(path, body string, into any) {
		t.Helper()
		code, answer := post(t, n.http+path, body)
		if err := json.Unmarshal([]byte(answer), into); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", path, code, answer)
		}
	}
	const place = `"domain":"llm","descriptors":[{"entries":{"in_flight":"k1","plan":"team"}}],"lease":"r1"`
	const tokens = `"domain":"llm","descriptors":[{"entries":{"api_key":"k1","plan":"team"}},{"entries":{"model":"m"}}]`
	var decision struct {
		Allowed   bool
		Remaining int64
		Handle    string
	}
	ask("/v1/acquire", "{"+place+"}", &decision)
	if !decision.Allowed || decision.Remaining != 49 {
		t.Errorf("acquire: %+v", decision)
	}
	ask("/v1/reserve", "{"+tokens+`,"cost":400000}`, &decision)
	if !decision.Allowed || decision.Handle == "" {
		t.Fatalf("reserve: %+v", decision)
	}
	handle := decision.Handle
	ask("/v1/check", "{"+tokens+`,"cost":300000}`, &decision)
	if decision.Allowed {
		t.Error("the reserved tokens are still there")
	}
	ask("/v1/commit", `{"handle":"`+handle+`","actual":1000}`, &decision)
	ask("/v1/check", "{"+tokens+`,"cost":300000}`, &decision)
	if !decision.Allowed {
		t.Errorf("the tokens that were not used are gone: %+v", decision)
	}
	ask("/v1/release", "{"+place+"}", &struct{}{})
	ask("/v1/acquire", "{"+strings.Replace(place, "r1", "r2", 1)+"}", &decision)
	if decision.Remaining != 49 {
		t.Errorf("the released place is not there: %+v", decision)
	}
}

// An operator bans and resets one key from the admin listener; the public port
// does not let anybody.
func TestBanAndReset(t *testing.T) {
	n := serve(t, "--limit", "2/hour by client_id")
	allowed := func(id string) bool {
		t.Helper()
		_, body := post(t, n.http+"/shouldAllowRequest", `{"clientId":"`+id+`"}`)
		return body == `{"allowed":true}`
	}
	const who = `"descriptors":[{"entries":{"client_id":"1"}}]`
	for _, path := range []string{"/v1/admin/ban", "/v1/admin/reset", "/v1/admin/inspect"} {
		if code, body := post(t, n.http+path, `{`+who+`,"seconds":60}`); code != 403 {
			t.Errorf("%s on the public port: %d %s", path, code, body)
		}
	}
	if code, body := post(t, n.admin+"/v1/admin/ban", `{`+who+`,"seconds":3600}`); code != 200 {
		t.Fatalf("ban: %d %s", code, body)
	}
	if allowed("1") || !allowed("2") {
		t.Error("the ban is not on 1 alone")
	}
	if code, body := post(t, n.admin+"/v1/admin/reset", `{`+who+`}`); code != 200 {
		t.Fatalf("reset: %d %s", code, body)
	}
	for i, want := range []bool{true, true, false} {
		if got := allowed("1"); got != want {
			t.Errorf("request %d after the reset: %v", i+1, got)
		}
	}
	if code, body := get(t, n.admin+"/v1/rules"); code != 200 || !strings.Contains(body, "2/hour by client_id") {
		t.Errorf("rules: %d %s", code, body)
	}
}
