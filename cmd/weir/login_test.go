package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// app is an upstream with a login: it lets in who gives the account's name as
// the password.
type app struct {
	*httptest.Server
	let, turned sync.Map // account: *atomic.Int64
}

func newApp(t *testing.T) *app {
	a := &app{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		password, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		account := strings.TrimPrefix(r.URL.Path, "/login/")
		if string(password) != account {
			tally(&a.turned, account).Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tally(&a.let, account).Add(1)
	}))
	t.Cleanup(a.Close)
	return a
}

func tally(m *sync.Map, key string) *atomic.Int64 {
	n, _ := m.LoadOrStore(key, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// turnedAway is how many attempts the upstream has had to turn away.
func (a *app) turnedAway() (n int64) {
	a.turned.Range(func(_, v any) bool { n += v.(*atomic.Int64).Load(); return true })
	return n
}

// The hybrid login of examples/login.yaml behind the built gateway. One
// attacker tries one account from many addresses, one tries many accounts from
// one address; both are stopped where the rules say, to the attempt, and those
// who know their password log in, as often as they like.
func TestLoginUnderAttack(t *testing.T) {
	upstream := newApp(t)
	n := serve(t, "--config", "../../examples/gateway/login.yaml", "--rules", "../../examples/login.yaml", "--upstream", upstream.URL)
	login := func(client *http.Client, account, password, address, device string) int {
		t.Helper()
		req, err := http.NewRequest("POST", n.http+"/login/"+account, strings.NewReader(password))
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("X-Forwarded-For", "192.0.2.99, "+address) // the first is the client's own claim
		if device != "" {
			req.Header.Set("X-Known-Device", device)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	// attack tries from 16 connections at once and returns the answers.
	attack := func(tries int, account, address func(i int) string) *statuses {
		var got statuses
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				tr := &http.Transport{}
				defer tr.CloseIdleConnections()
				for i := next.Add(1); i <= int64(tries); i = next.Add(1) {
					got.add(login(&http.Client{Transport: tr}, account(int(i)), "guess", address(int(i)), ""))
				}
			})
		}
		wg.Wait()
		return &got
	}
	is := func(who string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s was answered %d, want %d", who, got, want)
		}
	}
	const perAccount, perAddress, tries = 5, 10, 120

	spray := attack(tries, func(int) string { return "alice" }, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) })
	if spray.n[401] != perAccount || spray.n[429] != tries-perAccount || upstream.turnedAway() != perAccount {
		t.Errorf("many addresses, one account: %v, of which %d reached the upstream; want %d", spray.n, upstream.turnedAway(), perAccount)
	}
	const villain = "203.0.113.66"
	before := upstream.turnedAway()
	list := attack(tries, func(i int) string { return fmt.Sprintf("user%d", i) }, func(int) string { return villain })
	if list.n[401] != perAddress || list.n[429] != tries-perAddress || upstream.turnedAway()-before != perAddress {
		t.Errorf("many accounts, one address: %v, of which %d reached the upstream; want %d", list.n, upstream.turnedAway()-before, perAddress)
	}

	// Alice's account is under attack; her own device knows it.
	for range 30 {
		is("Alice on her device", login(client, "alice", "alice", "203.0.113.1", "alice"), 200)
	}
	// The same office as the villain, on a known device.
	is("Bob behind the villain's address", login(client, "bob", "bob", villain, "bob"), 200)
	is("Bob there on a new device", login(client, "bob", "bob", villain, ""), 429)
	// Carol is not under attack, and mistypes.
	is("Carol's typo", login(client, "carol", "carlo", "203.0.113.3", ""), 401)
	for range 30 {
		is("Carol", login(client, "carol", "carol", "203.0.113.3", ""), 200)
	}
	// user1 was tried once, and her name is not spelt around: it counts as one.
	for i := range 4 {
		is(fmt.Sprintf("typo %d of Dora", i), login(client, []string{"dora", "%64ora", "dora/", "d%6fra"}[i], "x", fmt.Sprintf("203.0.113.%d", 10+i), ""), 401)
	}
	is("Dora's fifth", login(client, "dora", "x", "203.0.113.20", ""), 401)
	is("Dora's sixth", login(client, "dora", "dora", "203.0.113.21", ""), 429)
	// A known device does not open other accounts to guessing.
	var mallory statuses
	for i := range 30 {
		mallory.add(login(client, fmt.Sprintf("victim%d", i), "guess", "203.0.113.4", "mallory"))
	}
	if mallory.n[401] != 10 || mallory.n[429] != 20 {
		t.Errorf("a known device that guesses: %v, want 10 of 401", mallory.n)
	}
	if got := tally(&upstream.let, "alice").Load(); got != 30 {
		t.Errorf("the upstream let Alice in %d times, want 30", got)
	}
}

// Who does not come through the load balancer names neither an address nor a
// device.
func TestLoginClaims(t *testing.T) {
	upstream := newApp(t)
	n := serve(t, "--config", "../../examples/gateway/login.yaml", "--rules", "../../examples/login.yaml", "--upstream", upstream.URL,
		"--trusted-proxies", "192.0.2.1")
	var got statuses
	for i := range 12 {
		req, err := http.NewRequest("POST", n.http+fmt.Sprintf("/login/a%d", i), strings.NewReader("guess"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))
		req.Header.Set("X-Known-Device", fmt.Sprintf("a%d", i))
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		got.add(res.StatusCode)
	}
	if got.n[401] != 10 || got.n[429] != 2 {
		t.Errorf("answered %v, want 10 of 401", got.n)
	}
}

// One account has five failures an hour, from however many addresses and in
// however many spellings of its name.
func TestLoginSpellings(t *testing.T) {
	upstream := newApp(t)
	n := serve(t, "--config", "../../examples/gateway/login.yaml", "--rules", "../../examples/login.yaml", "--upstream", upstream.URL)
	for i, account := range []string{
		"victim", "VICTIM", "Victim%20", "vic%E2%80%8Btim", "victim%C2%A0", "%EF%BD%96ictim", "vic%C2%ADtim", "%20victim", "VIC%E2%80%8DTIM", "%76ictim", "victim%EF%B8%8F", "victim%e3%80%80",
	} {
		req, err := http.NewRequest("POST", n.http+"/login/"+account, strings.NewReader("wrong"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i+1))
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		code, _ := read(t, res)
		if want := map[bool]int{true: 401, false: 429}[i < 5]; code != want {
			t.Errorf("%s, attempt %d: %d, want %d", account, i+1, code, want)
		}
	}
}
