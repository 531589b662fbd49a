package shared

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A store only counts if it rejects a registration: one whose call was lost is made again.
// Else the node would lease for good, and others know nothing of it.
func TestLostRegistrationIsMadeAgain(t *testing.T) {
	for outcome, only := range map[transport.Outcome]bool{transport.Rejected: true, transport.Failed: false, transport.Late: false, transport.Unsent: false} {
		n, err := newNodes(&Options{NodeTTL: time.Second}, rand.Uint64)
		if err != nil {
			t.Fatal(err)
		}
		err = n.renewRegistration(func(ops []weir.Op) error {
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

// A store that rejects a registration has answered: whether it is away tells the question
// that comes after it.
func TestRejectedRegistrationIsNoOutage(t *testing.T) {
	for _, outcome := range []transport.Outcome{transport.Late, transport.Unsent, transport.Failed} {
		n, err := newNodes(&Options{NodeTTL: time.Second}, rand.Uint64)
		if err != nil {
			t.Fatal(err)
		}
		silent := &transport.Result{Outcome: outcome, Err: errors.New("no answer")}
		err = n.renewRegistration(func(ops []weir.Op) error {
			if ops[0].Verb == weir.Peek {
				return silent
			}
			return &transport.Result{Outcome: transport.Rejected, Err: errors.New("it cannot keep permits")}
		})
		if err != error(silent) || n.countsOnly.Load() {
			t.Errorf("outcome %d: %v, the store only counts: %v", outcome, err, n.countsOnly.Load())
		}
	}
}
