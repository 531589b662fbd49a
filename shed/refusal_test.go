package shed_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/shed"
)

// problem returns the answer as a front end writes it.
func problem(r shed.Refusal) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	answer.Problem{Type: r.Type, Title: r.Title, Status: r.Status, Detail: r.Detail, RetryAfter: r.RetryAfter}.Write(rec)
	return rec
}

func TestBusyIsToldAs503(t *testing.T) {
	if shed.ReducedCapacity != answer.ReducedCapacity {
		t.Errorf("the problem type is %s", shed.ReducedCapacity)
	}
	o := onNode(1)
	o.InFlight.RetryAfter = 3 * time.Second
	rec := problem(newShedder(t, o).Busy())
	const want = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary reduced capacity","status":503,"code":"UNAVAILABLE",` +
		`"detail":"this node has as many requests under way as it takes of this priority; try again later","retry_after":3}`
	if rec.Code != 503 || rec.Body.String() != want || rec.Header().Get("Retry-After") != "3" || rec.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v\n%s", rec.Code, rec.Header(), rec.Body)
	}
	if got := newShedder(t, onNode(1)).Busy().RetryAfter; got != 1 {
		t.Errorf("without a setting: %d seconds", got)
	}
}

// TestWhoIsToldWhat: 503 where the fleet alone refuses, else 429.
func TestWhoIsToldWhat(t *testing.T) {
	o := all()
	o.FleetShare.Limit = shed.Rate{Count: 20, Period: 10 * time.Second} // 4 of which are kept
	gate := &weir.Limit{Name: "gate", Algorithm: algorithm.FixedWindow, Count: 40, Period: time.Minute}
	w := newWorld(t, o, gate)
	f := func(what string, r *weir.Request, violated string) {
		t.Helper()
		d := w.decide(r)
		if d.Allowed() {
			t.Fatalf("%s: allowed", what)
		}
		got, ok := w.s.Refused(r.Ops(), d)
		if ok != (violated != "") {
			t.Fatalf("%s: is the fleet's refusal: %t", what, ok)
		}
		if ok && (got.Status != 503 || got.RetryAfter < 9 || got.RetryAfter > 11 || len(got.Violated) != 1 || got.Violated[0] != violated) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	pass := func(r *weir.Request) {
		t.Helper()
		d := w.decide(r)
		if _, ok := w.s.Refused(r.Ops(), d); !d.Allowed() || ok {
			t.Fatalf("%+v, refused %t", d, ok)
		}
	}
	cost := func(r *weir.Request, n int64) *weir.Request {
		r.Cost = n
		return r
	}
	pass(cost(ask("ann", shed.Default, ""), 10))
	f("a user's rate", cost(ask("ann", shed.Default, ""), 1), "")
	pass(cost(ask("bob", shed.Default, ""), 6))
	f("the fleet", cost(ask("bob", shed.Default, ""), 1), "fleet_share_default")
	f("the user and the fleet", cost(ask("ann", shed.Default, ""), 1), "")
	pass(cost(ask("bob", shed.Critical, ""), 4))
	f("the fleet, for critical ones", cost(ask("eve", shed.Critical, ""), 1), "fleet_share_critical")
	set(t, w.s, "user_rate", "shadow")
	f("the fleet, with a shadow that would", cost(ask("ann", shed.Default, ""), 1), "fleet_share_default")
	f("what can never pass", cost(ask("", shed.Default, ""), 17), "")
	set(t, w.s, "user_rate", "off", "fleet_share", "shadow")
	pass(cost(ask("cid", shed.Default, ""), 40))
	f("another rule", cost(ask("cid", shed.Default, ""), 1), "")
	set(t, w.s, "fleet_share", "enforce")
	f("another rule and the fleet", cost(ask("cid", shed.Default, ""), 1), "")
}

// TestElasticBesideTheFleet: an own share that is used up refuses nothing while
// its pool has room.
func TestElasticBesideTheFleet(t *testing.T) {
	pool := &weir.Limit{Name: "pool", Algorithm: algorithm.FixedWindow, Count: 100, Period: time.Minute}
	own := &weir.Limit{Name: "own", Algorithm: algorithm.FixedWindow, Count: 1, Period: time.Minute, Mode: weir.Mode{Pool: pool, PoolKey: "all"}}
	w := newWorld(t, shed.Options{FleetShare: shed.FleetOptions{Limit: perSecond(10)}}, own)
	for range 8 {
		if r := ask("ann", shed.Default, ""); !w.decide(r).Allowed() {
			t.Fatal("refused")
		}
	}
	r := ask("ann", shed.Default, "")
	d := w.decide(r)
	if _, ok := w.s.Refused(r.Ops(), d); d.Allowed() || !ok {
		t.Errorf("%+v is not the fleet's refusal", d)
	}
}
