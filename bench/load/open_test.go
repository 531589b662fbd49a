package load

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func open(t *testing.T, h http.HandlerFunc) Open {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return Open{
		Address: strings.TrimPrefix(srv.URL, "http://"), Request: []byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
		Rate: 1000, For: 200 * time.Millisecond, Connections: 4,
	}
}

func TestOpenSendsAtItsRate(t *testing.T) {
	var asked atomic.Int64
	o := open(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.Write([]byte("up\n")) })
	o.Warm = 100 * time.Millisecond
	seen, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 300 || seen.Requests != 200 {
		t.Errorf("%d requests of which %d counted, want 300 and 200", asked.Load(), seen.Requests)
	}
	if seen.Latency.Longest <= 0 {
		t.Error("no latency")
	}
}

// What waits behind a slow answer is slow as well: the one connection is held
// for 50 ms, in which fifty more requests fall due.
func TestOpenCountsWhatASlowAnswerHoldsUp(t *testing.T) {
	var asked atomic.Int64
	o := open(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 20 {
			<-time.After(50 * time.Millisecond)
		}
		w.Write([]byte("up\n"))
	})
	o.Connections = 1
	seen, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := seen.Latency.Quantile(0.9); got < 20*time.Millisecond {
		t.Errorf("p90 is %s, want over 20 ms: a fifth of the requests fell due while one was held", got)
	}
	if seen.Late.Longest < 40*time.Millisecond {
		t.Errorf("sent %s late at most, want about 50 ms", seen.Late.Longest)
	}
}

func TestOpenFailsOnOtherAnswers(t *testing.T) {
	f := func(want string, h http.HandlerFunc) {
		t.Helper()
		if _, err := open(t, h).Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	f("429", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	f("length", func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).Flush()
		w.Write([]byte("chunked"))
	})
	f("EOF", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "7")
		w.Write([]byte("broken"))
	})
}
