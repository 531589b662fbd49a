package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/store/memory"
)

// awayOptions returns options for each thing to do while the service is away, and of
// a client that remembers nothing.
func awayOptions(t *testing.T, w Wire) []Options {
	t.Helper()
	store := memory.New(memory.Options{})
	t.Cleanup(func() { store.Close() })
	limiter, err := weir.New(store, weir.Limits{weir.PerMinute(1_000_000, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []Options
	for _, opt := range []Options{{Fallback: Allow}, {Fallback: Deny}, {Fallback: DecideLocally, Local: limiter}, {Fallback: Deny, MaxRemember: -1}} {
		opt.Wire, opt.Budget = w, time.Minute
		all = append(all, opt)
	}
	return all
}

// TestFamilyAnswersThatDoNotFit: a service, or what answers in its place, that gives
// fewer or more decisions than were asked, none, or reservations without handles does
// not end the program: it has not answered.
func TestFamilyAnswersThatDoNotFit(t *testing.T) {
	ctx := t.Context()
	for n := range 4 { // decisions that the service gives
		for asked := 1; asked <= 3; asked++ {
			w := &wire{decide: func(_ context.Context, _ []Check, _ bool) ([]Decision, error) {
				if n == 0 {
					return nil, nil
				}
				ds := make([]Decision, n)
				for i := range ds {
					ds[i].Allowed = true
				}
				return ds, nil
			}}
			for _, opt := range awayOptions(t, w) {
				c := newClient(t, opt)
				ks := make([]Check, asked)
				for i := range ks {
					ks[i] = Of("shop", weir.Entry{Key: "user", Value: fmt.Sprint(i)})
				}
				ds, err := c.CheckAll(ctx, ks)
				if err != nil && c.opt.Fallback != DecideLocally || err == nil && len(ds) != asked {
					t.Fatalf("%d decisions on %d checks: %d, %v", n, asked, len(ds), err)
				}
				for _, d := range ds {
					if fits := n == asked; d.Degraded == fits || (d.Source == Service) != fits || !fits && (d.Cause == nil || d.Allowed != (c.opt.Fallback != Deny)) {
						t.Errorf("%d decisions on %d checks, %v: %+v", n, asked, c.opt.Fallback, d)
					}
				}
				if asked > 1 {
					continue
				}
				for what, ask := range map[string]func(context.Context, Check) (Decision, error){"Check": c.Check, "Peek": c.Peek} {
					if d, err := ask(ctx, ks[0]); err != nil || d.Degraded != (n != 1) {
						t.Errorf("%s, %d decisions: %+v, %v", what, n, d, err)
					}
				}
			}
		}
	}
	for _, r := range []struct {
		allowed bool
		handle  string
		err     error
	}{{true, "", nil}, {false, "h", nil}, {true, "h", fmt.Errorf("broken")}} {
		w := &wire{reserve: func(Check) (Decision, string, time.Time, error) {
			return Decision{Allowed: r.allowed}, r.handle, time.Now(), r.err
		}}
		for _, opt := range awayOptions(t, w) {
			c := newClient(t, opt)
			got, err := c.Reserve(ctx, ann)
			if err != nil || !got.Decision.Degraded || got.Handle != "" || !got.Expires.IsZero() || got.Decision.Allowed != (c.opt.Fallback != Deny) {
				t.Errorf("reservation %+v: %+v, %v", r, got, err)
			}
		}
	}
}

// TestFamilyAnswersByOthers: whatever answers over HTTP in the service's place, the
// client has a decision on each check, of the service or without it, and settles
// nothing that was not settled.
func TestFamilyAnswersByOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeds.Of(t), 0))
	answer := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, <-answer) }))
	defer srv.Close()
	w, err := NewHTTP(HTTPOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	rounds := 400
	if os.Getenv("WEIR_SOAK") == "1" {
		rounds = 20_000
	}
	opts := awayOptions(t, w)
	for range rounds {
		opt, asked := opts[rng.IntN(len(opts))], 1+rng.IntN(3)
		c := newClient(t, opt) // the breaker of one that has failed before opens
		ks := make([]Check, asked)
		for i := range ks {
			ks[i] = Of("shop", weir.Entry{Key: "user", Value: fmt.Sprint(rng.Int64())})
		}
		text, good := madeUp(rng, asked)
		answer <- text
		switch ds, err := c.CheckAll(t.Context(), ks); {
		case err != nil || len(ds) != asked:
			t.Fatalf("%s to %d checks: %d decisions, %v", text, asked, len(ds), err)
		default:
			for _, d := range ds {
				if (d.Source == Service) != good || !good && (!d.Degraded || d.Allowed != (c.opt.Fallback != Deny)) {
					t.Fatalf("%s to %d checks: %+v", text, asked, d)
				}
			}
		}
		for _, end := range []func() error{
			func() error { _, err := c.Commit(t.Context(), Reservation{Handle: "h"}, 1); return err },
			func() error { _, err := c.Cancel(t.Context(), Reservation{Handle: "h"}); return err },
			func() error {
				_, err := c.Release(t.Context(), Lease{Check: Check{Lease: "l"}, remote: true})
				return err
			},
		} {
			answer <- text
			c = newClient(t, opt)
			if err := end(); err == nil {
				t.Fatalf("%s settles", text)
			}
		}
	}
}

// madeUp returns an answer, and whether it is one to so many checks.
func madeUp(rng *rand.Rand, asked int) (text string, good bool) {
	one := func() (string, bool) {
		switch rng.IntN(8) {
		case 0:
			return `{}`, false
		case 1:
			return `null`, false
		case 2:
			return []string{`{"allowed":null}`, `{"allowed":"yes"}`, `{"allowed":1}`, `{"remaining":3}`, `[]`, `""`, `7`}[rng.IntN(7)], false
		}
		return fmt.Sprintf(`{"allowed":%t,"limit":null,"remaining":null,"retry_after":%d,"limits":[{"limit":null,"role":"own"}]}`, rng.IntN(2) == 0, rng.IntN(3)), true
	}
	switch rng.IntN(6) {
	case 0:
		return []string{``, `<html>`, `[]`, `null`, `{}`, `{"results":null}`, `{"results":{}}`, `{"results":[[]]}`, `{"reserved":null}`, `{"released":null}`, "\x00", `{"allowed":`, `true`}[rng.IntN(13)], false
	}
	n, good := asked, true
	if rng.IntN(2) == 0 {
		n = rng.IntN(5)
		good = n == asked
	}
	if asked == 1 {
		return one()
	}
	all := make([]string, n)
	for i := range all {
		var ok bool
		all[i], ok = one()
		good = good && ok
	}
	return `{"results":[` + strings.Join(all, ",") + `]}`, good
}
