package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/store/memory"
)

// TestFamilyZeroRefuses: whatever keeps a client from deciding, the value that comes
// with the error refuses, and so do zero values.
func TestFamilyZeroRefuses(t *testing.T) {
	bubble.Test(t, everyWayRefuses)

	// An answer that reserves and names no handle is none.
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"allowed":true}`))
	}))
	defer srv.Close()
	w, err := NewHTTP(HTTPOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	if d, handle, _, err := w.Reserve(t.Context(), ann); err == nil || d.Allowed || handle != "" {
		t.Errorf("a reservation without a handle: %+v, %q, %v", d, handle, err)
	}
}

// everyWayRefuses runs in virtual time: who waits for a service that fails waits for long.
func everyWayRefuses(t *testing.T) {
	if (Decision{}).Allowed || (Outcome{}).Allowed || (Reservation{}).Decision.Allowed || (Reservation{}).Handle != "" {
		t.Error("a zero value allows")
	}
	wrong := &Error{Status: 400, Detail: "wrong"}
	// A way to the service that allows whatever else it says.
	lying := func(err error) *wire {
		yes := Decision{Allowed: true, Limit: perMinute, Delay: time.Hour}
		return &wire{
			decide: func(_ context.Context, ks []Check, _ bool) ([]Decision, error) {
				ds := make([]Decision, len(ks))
				for i := range ds {
					ds[i] = yes
				}
				return ds, err
			},
			acquire: func(Check) (Decision, error) { return yes, err },
			reserve: func(Check) (Decision, string, time.Time, error) { return yes, "handle", time.Time{}, err },
			settle:  func(string, int64) (Settlement, error) { return Settlement{}, err },
			release: func(Check) error { return err },
		}
	}
	store := memory.New(memory.Options{})
	local, err := weir.New(store, weir.Limits{weir.PerMinute(9, algorithm.TokenBucket)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	ways := map[string]func(context.Context, *Client, Check) (bool, error){
		"Check": func(ctx context.Context, c *Client, k Check) (bool, error) {
			d, err := c.Check(ctx, k)
			return d.Allowed, err
		},
		"Peek": func(ctx context.Context, c *Client, k Check) (bool, error) {
			d, err := c.Peek(ctx, k)
			return d.Allowed, err
		},
		"ShouldAllow": func(ctx context.Context, c *Client, k Check) (bool, error) {
			if k.Cost < 0 {
				return false, wrong
			}
			d, err := c.ShouldAllow(ctx, "ann")
			return d.Allowed, err
		},
		"CheckAll": func(ctx context.Context, c *Client, k Check) (bool, error) {
			ds, err := c.CheckAll(ctx, []Check{k, k})
			return len(ds) > 0 && (ds[0].Allowed || ds[1].Allowed), err
		},
		"Wait": func(ctx context.Context, c *Client, k Check) (bool, error) {
			d, err := c.Wait(ctx, k)
			if late := new(Refused); errors.As(err, &late) && late.Decision.Allowed {
				t.Errorf("the error of Wait allows: %+v", late.Decision)
			}
			return d.Allowed, err
		},
		"Acquire": func(ctx context.Context, c *Client, k Check) (bool, error) {
			l, d, err := c.Acquire(ctx, k)
			if err != nil && l.Check.Lease != "" {
				t.Errorf("a lease that was not acquired: %+v", l)
			}
			return d.Allowed, err
		},
		"Renew": func(ctx context.Context, c *Client, k Check) (bool, error) {
			_, d, err := c.Renew(ctx, Lease{Check: k})
			return d.Allowed, err
		},
		"Reserve": func(ctx context.Context, c *Client, k Check) (bool, error) {
			r, err := c.Reserve(ctx, k)
			if err != nil && r.Handle != "" {
				t.Errorf("a reservation that was not made: %+v", r)
			}
			return r.Decision.Allowed, err
		},
	}
	for name, ask := range ways {
		f := func(what string, ctx context.Context, opt Options, k Check, fails bool) {
			t.Helper()
			allowed, err := ask(ctx, newClient(t, opt), k)
			if err != nil && allowed || fails && err == nil {
				t.Errorf("%s, %s: allowed %v, error %v", name, what, allowed, err)
			}
		}
		bad := ann
		bad.Cost = -1
		f("a question that is wrong", t.Context(), Options{Wire: lying(wrong)}, ann, true)
		f("a service that fails", t.Context(), Options{Wire: lying(errors.New("away")), Fallback: Deny}, ann, false)
		f("a service that fails, and a store in the process that is closed", t.Context(), Options{Wire: lying(errors.New("away")), Fallback: DecideLocally, Local: local}, ann, true)
		f("a canceled context", canceled, Options{Wire: lying(context.Canceled)}, ann, true)
		f("a cost out of range", t.Context(), Options{Wire: lying(nil)}, bad, true)
		f("a delay that is too long", t.Context(), Options{Wire: lying(nil), MaxWait: time.Second}, ann, name == "Wait")
	}
}
