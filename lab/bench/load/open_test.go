package load

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// server returns a server that h answers.
func server(t *testing.T, h http.HandlerFunc) Server {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the open loop needs Linux")
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return Server{strings.TrimPrefix(srv.URL, "http://"), []byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")}
}

func TestOpenSendsInOrderAtItsRate(t *testing.T) {
	var asked [2]atomic.Int64
	var o Open
	for i := range asked {
		o.Servers = append(o.Servers, server(t, func(w http.ResponseWriter, _ *http.Request) {
			asked[i].Add(1)
			w.Write([]byte("up\n"))
		}))
	}
	o.Rate, o.Connections = 1000, 4
	order := make([]uint8, o.Count(300*time.Millisecond))
	for i := range order[:100] {
		order[i] = 1
	}
	began := time.Now()
	trips, err := o.Run(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 299*time.Millisecond {
		t.Errorf("300 requests at 1,000 a second took %s", took)
	}
	if asked[0].Load() != 204 || asked[1].Load() != 104 || len(trips) != 300 {
		t.Errorf("%d and %d requests, %d trips; want 204, 104, 300: four to each go before", asked[0].Load(), asked[1].Load(), len(trips))
	}
	for i, tr := range trips {
		if tr.Due != int64(i)*1e6 || tr.Sent < tr.Due || tr.Done <= tr.Sent {
			t.Fatalf("trip %d is %+v: want due at %d ms, sent then or later, done after", i, tr, i)
		}
	}
}

// Answers differ in length, and some come in several pieces.
func TestOpenReadsAnswersOfAnyLength(t *testing.T) {
	var asked atomic.Int64
	s := server(t, func(w http.ResponseWriter, _ *http.Request) {
		body := bytes.Repeat([]byte{'x'}, int(asked.Add(1)%5)*15_000)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		w.Write(body[len(body)/2:])
	})
	if _, err := (Open{Servers: []Server{s}, Rate: 1000, Connections: 2}).Run(t.Context(), make([]uint8, 100)); err != nil {
		t.Error(err)
	}
	if asked.Load() != 102 {
		t.Errorf("%d requests, want 100 and two before", asked.Load())
	}
}

// stalling returns a server that holds up one request, the nth.
func stalling(t *testing.T, nth int64, d time.Duration) Server {
	t.Helper()
	var asked atomic.Int64
	return server(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == nth {
			<-time.After(d)
		}
		w.Write([]byte("up\n"))
	})
}

// What waits behind a slow answer is slow as well: the one connection is held
// for 50 ms, in which fifty more requests fall due.
func TestOpenCountsWhatASlowAnswerHoldsUp(t *testing.T) {
	s := stalling(t, 21, 50*time.Millisecond)
	trips, err := Open{Servers: []Server{s}, Rate: 1000, Connections: 1}.Run(t.Context(), make([]uint8, 200))
	if err != nil {
		t.Fatal(err)
	}
	if slow := trips[19]; slow.FromSent() < 50*time.Millisecond {
		t.Errorf("the slow answer took %s, want 50 ms", slow.FromSent())
	}
	held := trips[30] // due 11 ms later
	if held.FromDue() < 35*time.Millisecond || held.Late() < 35*time.Millisecond || held.FromDue() != held.Late()+held.FromSent() {
		t.Errorf("a request held up took %s, %s of it before it was sent; want about 39 ms", held.FromDue(), held.Late())
	}
}

// A server that stalls does not hold up what goes to another.
func TestOpenKeepsServersApart(t *testing.T) {
	slow := stalling(t, 2, 200*time.Millisecond)
	fast := server(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("up\n")) })
	order := make([]uint8, 100)
	for i := range order {
		order[i] = uint8(i % 2)
	}
	trips, err := Open{Servers: []Server{slow, fast}, Rate: 1000, Connections: 1}.Run(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	if held := trips[98]; held.Late() < 90*time.Millisecond {
		t.Errorf("the last request to the slow server left %s late, want about 100 ms", held.Late())
	}
	if free := trips[99]; free.Done > trips[0].Done {
		t.Errorf("the last request to the fast server was answered after %s, behind the slow one", time.Duration(free.Done))
	}
}

// Connections that are seldom needed are there when they are.
func TestOpenUsesEveryConnectionBefore(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("up\n")) }))
	srv.Config.ReadHeaderTimeout = 100 * time.Millisecond
	srv.Config.IdleTimeout = time.Minute
	srv.Start()
	defer srv.Close()
	s := server(t, nil)
	s.Address = strings.TrimPrefix(srv.URL, "http://")
	if _, err := (Open{Servers: []Server{s}, Rate: 100, Connections: 16}).Run(t.Context(), make([]uint8, 40)); err != nil {
		t.Error(err)
	}
}

func TestOpenFailsOnOtherAnswers(t *testing.T) {
	f := func(want string, h http.HandlerFunc) {
		t.Helper()
		o := Open{Servers: []Server{server(t, h)}, Rate: 1000, Connections: 4}
		if _, err := o.Run(t.Context(), make([]uint8, 20)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	f("429", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	f("does not state its length", func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).Flush()
		w.Write([]byte("chunked"))
	})
	f("EOF", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "7")
		w.Write([]byte("broken"))
	})
	f("longer than", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "70000")
	})
}

func TestOpenEndsWithItsContext(t *testing.T) {
	over := make(chan struct{})
	var asked atomic.Int64
	s := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 8 {
			<-over
		}
		w.Write([]byte("up\n"))
	})
	defer close(over)
	why := errors.New("enough")
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	time.AfterFunc(100*time.Millisecond, func() { stop(why) })
	if _, err := (Open{Servers: []Server{s}, Rate: 20_000, Connections: 4}).Run(ctx, make([]uint8, 10)); !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
}

func TestOpenRefusesWhatItCannotSend(t *testing.T) {
	one := []Server{{"127.0.0.1:1", []byte("x")}}
	f := func(want string, o Open, order []uint8) {
		t.Helper()
		if _, err := o.Run(t.Context(), order); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f("nothing to send", Open{Servers: one, Rate: 1, Connections: 1}, nil)
	f("nothing to send", Open{Rate: 1, Connections: 1}, []uint8{0})
	f("nothing to send", Open{Servers: one, Rate: 1}, []uint8{0})
	f("want more than none", Open{Servers: one, Connections: 1}, []uint8{0})
	f("server 1 of 1", Open{Servers: one, Rate: 1, Connections: 1}, []uint8{0, 1})
}

func TestAnswerSize(t *testing.T) {
	f := func(want int, wantErr, text string) {
		t.Helper()
		n, err := answerSize([]byte(text))
		if n != want || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%q: %d, %v; want %d, %q", text, n, err, want, wantErr)
		}
	}
	f(0, "", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n")
	f(43, "", "HTTP/1.1 200 OK\r\ncontent-length:  3 \r\n\r\n")
	f(66, "", "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 10\r\nA: b\r\n\r\n012")
	f(0, "want status 200", "HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\n")
	f(0, "has the length", "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n")
	f(0, "has the length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
	f(0, "does not state its length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
}
