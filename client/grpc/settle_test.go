package grpcclient_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// doors returns the ways over gRPC and over HTTP to a node of a region with rules, on a
// store that nodes share.
func doors(t *testing.T, region, text string) (both [2]client.Wire, store *clocked.Failing) {
	t.Helper()
	set, err := rules.Parse("test.yaml", []byte(text), rules.Options{})
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
	here, store := doors(t, "eu", everything)
	there, _ := doors(t, "us", everything)
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
		status := func(err error) int { return statusOf(t, name, err) }
		all := []int64{-1, 0, 1, 5}
		expect := func(w client.Wire, handle string, want int, when string, settle []int64) {
			t.Helper()
			for _, actual := range settle {
				if _, err := w.Settle(t.Context(), handle, actual); status(err) != want {
					t.Errorf("%s, %s, actual %d: %v, want %d", name, when, actual, err, want)
				}
			}
		}
		for j, actual := range all {
			h := reserved()
			expect(there[i], h, 421, "in another region", all)
			store.Down.Store(true)
			expect(w, h, 503, "while the store is away", []int64{actual, actual})
			store.Down.Store(false)
			deadline := time.Now().Add(time.Minute)
			_, err := w.Settle(t.Context(), h, actual)
			for status(err) == 503 && time.Now().Before(deadline) {
				_, err = w.Settle(t.Context(), h, actual)
			}
			if err != nil {
				t.Errorf("%s: when the store is back: %v", name, err)
			}
			expect(w, h, 200, "the same again", []int64{actual})
			expect(w, h, 409, "once settled", slices.Delete(slices.Clone(all), j, j+1))
			expect(w, h+"x", 400, "forged", all)
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

// statusOf returns the status of HTTP that an error of a wire stands for.
func statusOf(t *testing.T, wire string, err error) int {
	var wrong *client.Error
	var busy *client.Busy
	switch {
	case errors.As(err, &wrong):
		return wrong.Status
	case errors.As(err, &busy) && busy.RetryAfter == time.Second, status.Code(err) == codes.Unavailable:
		return 503
	case err != nil:
		t.Errorf("%s: %v", wire, err)
		return 0
	}
	return 200
}

// A permit is said to be released where it was held, and not to be where it was not; while
// the store is away a client hears that this is not known, unless the node itself gave it.
func TestFamilyReleasesAreToldApart(t *testing.T) {
	for _, mode := range []string{"strict", "leased"} {
		for _, policy := range []string{"local", "last_known", "allow", "deny"} {
			both, store := doors(t, "eu", fmt.Sprintf(`domain: api
descriptors:
- {key: work, limits: [{limit: 9, name: work, algorithm: concurrency, ttl: 1h, consistency: %s, on_store_error: %s}]}
`, mode, policy))
			for i, name := range []string{"gRPC", "HTTP"} {
				w, what := both[i], fmt.Sprint(name, ", ", mode, ", ", policy)
				of := func(lease string) client.Check {
					k := client.Of("api", weir.Entry{Key: "work", Value: name})
					k.Lease = lease
					return k
				}
				release := func(when, lease string, want int, released bool) {
					t.Helper()
					got, err := w.Release(t.Context(), of(lease))
					if s := statusOf(t, what, err); s != want || got != released {
						t.Errorf("%s, %s: %d %t, want %d %t", what, when, s, got, want, released)
					}
				}
				acquire := func(lease string) client.Decision {
					d, err := w.Acquire(t.Context(), of(lease))
					if err != nil {
						t.Fatal(what, err)
					}
					return d
				}
				for !acquire("held").Allowed { // until the store is found to be back
				}
				release("what nobody holds", "other", 200, false)
				store.Down.Store(true)
				if mode == "leased" {
					release("what the node gave, the store away", "held", 200, true)
				} else {
					release("what the store gave, the store away", "held", 503, false)
				}
				release("what nobody holds, the store away", "other", 503, false)
				if acquire("meanwhile").Allowed && policy != "allow" {
					release("what was given without the store", "meanwhile", 200, true)
				}
				store.Down.Store(false)
				for acquire("again").Degraded {
				}
				release("the store back", "again", 200, true)
				release("the store back", "held", 200, mode == "strict")
				release("the same again", "held", 200, false)
			}
		}
	}
}
