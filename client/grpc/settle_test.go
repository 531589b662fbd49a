package grpcclient_test

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/client"
	"github.com/weirlimit/weir/internal/frontend/grpcapi"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/grpctest"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// doors returns the ways over gRPC and over HTTP to a node of a region, on a store
// that nodes share.
func doors(t *testing.T, region string) (both [2]client.Wire, store *clocked.Failing) {
	t.Helper()
	set, err := rules.Parse("test.yaml", []byte(everything), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store = clocked.NewFailing(t)
	local := memory.New(memory.Options{})
	node, err := shared.New(store, shared.Options{Local: local, Timeout: 10 * time.Second, ProbeEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(node.Close(), local.Close()); err != nil {
			t.Error(err)
		}
	})
	lim, err := weir.New(node, set, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reserver, err := reserve.New(lim, reserve.Options{Secret: []byte("0123456789abcdef"), Region: region})
	if err != nil {
		t.Fatal(err)
	}
	s, err := grpcapi.New(grpcapi.Options{Limiter: lim, Reserver: reserver})
	if err != nil {
		t.Fatal(err)
	}
	both[0] = dial(t, grpctest.Serve(t, grpcserver.Options{}, s.Register))
	api, err := httpapi.New(httpapi.Options{Limiter: lim, Reserver: reserver})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(api)
	t.Cleanup(web.Close)
	if both[1], err = client.NewHTTP(client.HTTPOptions{URL: web.URL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { both[1].Close() })
	return both, store
}

// A client can tell a reservation that is settled from one that may be settled
// again, and from one of another region, whichever way it asks.
func TestFamilySettlementsAreToldApart(t *testing.T) {
	here, store := doors(t, "eu")
	there, _ := doors(t, "us")
	for i, name := range []string{"gRPC", "HTTP"} {
		w := here[i]
		reserved := func() string {
			t.Helper()
			_, handle, _, err := w.Reserve(t.Context(), client.Of("api", weir.Entry{Key: "client_id", Value: name}))
			if err != nil || handle == "" {
				t.Fatalf("%s: %q, %v", name, handle, err)
			}
			return handle
		}
		status := func(err error) int {
			var wrong *client.Error
			var busy *client.Busy
			switch {
			case errors.As(err, &wrong):
				return wrong.Status
			case errors.As(err, &busy) && busy.RetryAfter == time.Second:
				return 503
			case err != nil:
				t.Errorf("%s: %v", name, err)
				return 0
			}
			return 200
		}
		expect := func(w client.Wire, handle string, want int, when string) {
			t.Helper()
			for _, actual := range []int64{-1, 0, 1, 5} {
				if _, err := w.Settle(t.Context(), handle, actual); status(err) != want {
					t.Errorf("%s, %s, actual %d: %v, want %d", name, when, actual, err, want)
				}
			}
		}
		for _, actual := range []int64{-1, 0, 1, 5} {
			h := reserved()
			expect(there[i], h, 421, "in another region")
			store.Down.Store(true)
			expect(w, h, 503, "while the store is away")
			store.Down.Store(false)
			deadline := time.Now().Add(time.Minute)
			_, err := w.Settle(t.Context(), h, actual)
			for status(err) == 503 && time.Now().Before(deadline) {
				_, err = w.Settle(t.Context(), h, actual)
			}
			if err != nil {
				t.Errorf("%s: when the store is back: %v", name, err)
			}
			expect(w, h, 409, "once settled")
			expect(w, h+"x", 400, "forged")
		}
		store.Down.Store(true)
		_, _, _, err := w.Reserve(t.Context(), client.Of("api", weir.Entry{Key: "nobody", Value: "limits"}))
		if status(err) != 503 {
			t.Errorf("%s: a reservation that meets no limit while the store is away: %v", name, err)
		}
		store.Down.Store(false)
		for {
			if _, _, _, err := w.Reserve(t.Context(), client.Of("api", weir.Entry{Key: "nobody", Value: "limits"})); err == nil {
				break
			}
		}
	}
}
