package simulator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/memory"
)

const epoch = 1_699_999_200_000_000

var errReset = errors.New("connection reset")

// faults are how often something goes wrong, each of so many calls, and how.
type faults struct {
	loseCall, loseAnswer int
	slowCall, slowAnswer int   // takes up to slow
	slow                 int64 // microseconds
	quick                int64 // the most that a call takes to the server, or back
}

// A server is the store that the nodes share.
type server struct {
	*world
	store  *memory.Store
	served atomic.Int64 // its time, which its sweeper reads too
	drift  int64        // ppm
	faults faults
	// downUntil is until when it is not reached.
	downUntil int64
	// faulty is when a call was last late, or had no answer.
	faulty  int64
	decided func(c *client, o *weir.Op)
	calls   int
}

func newServer(t testing.TB, w *world) *server {
	s := &server{world: w, faulty: -1 << 60}
	s.served.Store(s.time())
	s.store = memory.New(memory.Options{MaxBytes: 1 << 20, Now: s.served.Load})
	t.Cleanup(func() { s.store.Close() })
	return s
}

// time is the server's.
func (s *server) time() int64 { return epoch + s.now + s.now*s.drift/1_000_000 }

// take carries out ops.
func (s *server) take(ops []weir.Op) {
	s.served.Store(s.time())
	if err := s.store.Take(context.Background(), ops); err != nil {
		s.fail("the store: %v", err)
	}
	s.calls++
	s.event("serve", int64(len(ops)), int64(ops[0].Verb), ops[0].Cost, ops[0].Decision.Remaining)
}

// A driver carries a node's calls to the server, each of which may get lost or be late.
type driver struct {
	*server
	node *node
}

func (d *driver) Shards() int { return 1 }

func (d *driver) Shard(string) int { return 0 }

func (d *driver) Send(_ int, calls []*transport.Call) {
	for _, c := range calls {
		c.Finish(d.call(c))
	}
}

func (d *driver) Probe(int, time.Duration) error {
	d.sleep(d.quick())
	if d.isDown() {
		d.faulty = d.now
		return errReset
	}
	return nil
}

func (d *driver) isDown() bool { return d.now < d.downUntil || d.now < d.node.cutOff }

// quick is how long a call takes one way.
func (s *server) quick() int64 { return 1 + s.Int64N(s.faults.quick) }

// oneOf reports whether this is one of n; of zero it never is.
func (w *world) oneOf(n int) bool { return n > 0 && w.IntN(n) == 0 }

// call carries out a call, and returns how it ended. What is late is carried out all the
// same, later.
func (d *driver) call(c *transport.Call) *transport.Result {
	f, start, within := &d.faults, d.now, c.Within.Microseconds()
	there, back := d.quick(), d.quick()
	if d.oneOf(f.slowCall) {
		there += d.Int64N(f.slow)
	}
	if d.oneOf(f.slowAnswer) {
		back += d.Int64N(f.slow)
	}
	d.event("call", d.node.index, there, back)
	if there+back > d.node.budget {
		d.faulty = start + d.node.budget
	}
	if d.isDown() || d.oneOf(f.loseCall) {
		d.sleep(there)
		d.faulty = d.now
		d.event("lose call")
		return &transport.Result{Outcome: transport.Failed, MayRun: true, Err: errReset}
	}
	if there >= within {
		ops := append([]weir.Op(nil), c.Ops...)
		for i := range ops {
			ops[i].Key = strings.Clone(ops[i].Key) // the call is used again
		}
		d.world.start(nil, start+there, func() {
			d.event("serve late")
			d.take(ops)
		})
		d.sleep(within)
		return &transport.Result{Outcome: transport.Late, MayRun: true, Err: transport.ErrLate}
	}
	d.sleep(there)
	d.take(c.Ops)
	if who, ok := c.Context.Value(clientKey{}).(*client); ok {
		for i := range c.Ops {
			d.decided(who, &c.Ops[i])
		}
	}
	if there+back >= within {
		d.sleep(start + within - d.now)
		return &transport.Result{Outcome: transport.Late, MayRun: true, Err: transport.ErrLate}
	}
	d.sleep(back)
	if d.oneOf(f.loseAnswer) || d.isDown() {
		d.faulty = d.now
		d.event("lose answer")
		return &transport.Result{Outcome: transport.Failed, MayRun: true, Err: errReset}
	}
	return nil
}
