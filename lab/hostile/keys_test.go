package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestKeyFlood: new keys without end, through the API and as addresses behind a
// trusted proxy, leave memory below its bound, give nobody his quota back, and
// add no series to the metrics.
func TestKeyFlood(t *testing.T) {
	t.Parallel()
	many := n(20_000, 1_000_000)
	s := serve(t, "--limit", "3/year by client_id using fixed_window", "--limit", "3/year by ip using fixed_window", "--store", "memory:?max_bytes=1MiB",
		"--upstream", startUpstream(t).URL, "--trusted-proxies", "127.0.0.2")
	idle, _ := s.memory(t)
	victim := func() int {
		return s.raw(t, "127.0.0.2", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
	}
	for _, want := range []int{200, 200, 200, 429} {
		if got := victim(); got != want {
			t.Fatalf("before: %d, want %d", got, want)
		}
	}
	series := func() int {
		_, _, body := get(t, "http://"+s.admin+"/metrics")
		return strings.Count(body, "\n")
	}
	// One key of each kind before, so that every series is there.
	s.ask(t, 0, 1)
	before := series()
	each(4, func(w int) { s.ask(t, w*many/4, (w+1)*many/4) })
	if got := victim(); got != 429 {
		t.Errorf("after the flood the victim's limit is forgotten: %d", got)
	}
	// Answers of a busy machine, such as 503, have series of their own.
	if got := series(); got > before+many/100 {
		t.Errorf("%d lines of metrics, %d before the flood", got, before)
	}
	if s.metric(t, "weir_store_overflow_decisions_total") == 0 {
		t.Error("the store was not full: the flood proves nothing")
	}
	if held := s.metric(t, "weir_store_bytes"); held > mib {
		t.Errorf("the store holds %.0f bytes", held)
	}
	if _, most := s.memory(t); most-idle > 96*mib {
		t.Errorf("%d MiB were used, %d before", most>>20, idle>>20)
	}
}

// ask asks once about each of the keys from and below to, half of them as
// clients of the API and half as addresses, on one connection.
func (s *node) ask(t *testing.T, from, to int) {
	c := s.dial(t)
	defer c.Close()
	r := bufio.NewReader(c)
	const batch = 100
	for at := from; at < to; at += batch {
		var b strings.Builder
		end := min(at+batch, to)
		for i := at; i < end; i++ {
			fmt.Fprintf(&b, "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 2001:db8:%x:%x::1\r\n\r\n", i>>16, i&0xffff)
		}
		go io.WriteString(c, b.String())
		for range end - at {
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			io.Copy(io.Discard, res.Body)
			if res.StatusCode != 200 && res.StatusCode != 429 && res.StatusCode != 503 {
				t.Errorf("answered %d", res.StatusCode)
				return
			}
		}
	}
}

// TestFloodThroughTheAPI is the same for the names that the API is asked about,
// which are as long as they may be.
func TestFloodThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, "--limit", "1/year by client_id using fixed_window", "--store", "memory:?max_bytes=1MiB")
	idle, _ := s.memory(t)
	ask := func(body string) (int, string) {
		res, err := neighbour.Post("http://"+s.addr+"/v1/check", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		code, _, text := read(t, res)
		return code, text
	}
	one := func(id string) string {
		return fmt.Sprintf(`{"descriptors":[{"entries":[{"key":"client_id","value":%q}]}]}`, id)
	}
	if code, body := ask(one("victim")); code != 200 || !strings.Contains(body, `"allowed":true`) {
		t.Fatal(code, body)
	}
	pad := strings.Repeat("x", 200)
	for round := range n(60, 5000) {
		var b strings.Builder
		for i := range 1000 {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(one(fmt.Sprintf("%s%d-%d", pad, round, i)))
		}
		code, body := ask(`{"checks":[` + b.String() + `]}`)
		if code == 400 && strings.Contains(body, "checks at once") {
			t.Fatalf("the batch is too large: %s", body)
		}
		if code != 200 && code != 503 {
			t.Fatalf("%d %.300s", code, body)
		}
	}
	if s.metric(t, "weir_store_overflow_decisions_total") == 0 {
		t.Error("the store was not full: the flood proves nothing")
	}
	if code, body := ask(one("victim")); code != 200 || !strings.Contains(body, `"allowed":false`) {
		t.Errorf("after the flood: %d %s", code, body)
	}
	if _, most := s.memory(t); most-idle > 96*mib {
		t.Errorf("%d MiB were used, %d before", most>>20, idle>>20)
	}
}
