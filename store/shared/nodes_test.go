package shared

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// The view of other nodes begins anew whenever it was interrupted, and a node is
// registered only while its own registration lives: points 1 and 2 of the machine steady
// of internal/protocol.
func TestViewOfNodes(t *testing.T) {
	const second, life = 1_000_000, 5_000_000
	now, count, failure := clock.Node(second), int64(2), error(nil)
	n, err := newNodes(&Options{NodeTTL: 10 * time.Second}, clock.New(func() clock.Node { return now }, nil), rand.Uint64)
	if err != nil {
		t.Fatal(err)
	}
	renew := func() {
		if err := n.renew(func(ops []weir.Op) error {
			ops[0].Decision.Remaining = maxNodes - count
			return failure
		}); !errors.Is(err, failure) {
			t.Fatal(err)
		}
	}
	// pass renews every three seconds and a third, as maintenance does.
	pass := func(d int64) {
		for end := now + clock.Node(d); now < end; now += 10 * second / 3 {
			renew()
		}
	}
	check := func(when string, registered, steady bool) {
		t.Helper()
		if n.isRegistered() != registered || n.isSteady(life) != steady {
			t.Errorf("%s: registered %v, steady %v", when, n.isRegistered(), n.isSteady(life))
		}
	}
	renew()
	check("at the start", true, false)
	pass(20 * second)
	check("after the time in which all hear of a node and lots end", true, true)
	now += 10 * second
	check("when the registration has ended", false, false)
	renew()
	check("after a late renewal", true, false)
	pass(20 * second)
	check("after it", true, true)
	count = 3
	renew()
	check("when another has come", true, false)
	pass(20 * second)
	failure = errors.New("down")
	renew()
	check("after a renewal that failed", true, false)
	failure = nil
	pass(20 * second)
	n.interrupt()
	check("after the breaker was open", true, false)
}

// A store only counts if it rejects a registration: one whose call was lost is made again.
// Else the node would lease for good, and others know nothing of it.
func TestLostRegistrationIsMadeAgain(t *testing.T) {
	for outcome, only := range map[transport.Outcome]bool{transport.Rejected: true, transport.Failed: false, transport.Late: false, transport.Unsent: false} {
		n, err := newNodes(&Options{NodeTTL: time.Second}, clock.New(func() clock.Node { return 1 }, nil), rand.Uint64)
		if err != nil {
			t.Fatal(err)
		}
		err = n.renew(func(ops []weir.Op) error {
			if ops[0].Verb == weir.Peek {
				return nil
			}
			return &transport.Result{Outcome: outcome, Err: errors.New("no answer")}
		})
		if n.countsOnly.Load() != only || (err == nil) != only {
			t.Errorf("outcome %d: the store only counts: %v, error %v", outcome, n.countsOnly.Load(), err)
		}
	}
}
