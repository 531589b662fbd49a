package memcached

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/lateness"
)

// A server is one Memcached and the connections to it. It is the one address
// that its own clients choose from.
type server struct {
	addr string
	hash uint64
	// slots are the connections that nobody uses at the moment.
	slots  chan *slot
	closed <-chan struct{}
	// broken counts connections that ended unasked. Those that are idle since
	// before then are not used again: a server that was restarted fails the calls
	// that were under way, and not one more for each idle connection.
	broken atomic.Uint64
	// foreign counts keys that held what is no count.
	foreign atomic.Uint64
	// failures is how many calls have failed since the last that succeeded, and all
	// are the servers of the store.
	failures atomic.Int64
	all      []*server
}

// A slot is one connection at most, used by one call at a time. The client
// library knows one timeout for all calls, and starts it anew with each step; a
// client of its own for each slot lets the deadline be the call's.
type slot struct {
	client *memcache.Client
	due    *due
	broken uint64
}

// A due is by when a call has to be done. What this process is late itself meanwhile is
// not the server's fault: the call has so much longer.
type due struct {
	at  time.Time
	own lateness.Allowance
}

// more puts the instant off, and reports whether this process was late.
func (d *due) more() bool {
	more := d.own.More()
	if more > 0 {
		d.at = time.Now().Add(more)
	}
	return more > 0
}

func newServer(addr string, o *Options, closed <-chan struct{}) *server {
	h := fnv.New64a()
	h.Write([]byte(addr))
	s := &server{addr: addr, hash: h.Sum64(), slots: make(chan *slot, o.MaxConns), closed: closed}
	for range o.MaxConns {
		sl := &slot{client: memcache.NewFromSelector(s)}
		sl.client.MaxIdleConns = 1
		sl.client.Timeout = o.Timeout
		sl.client.DialContext = sl.dial
		s.slots <- sl
	}
	return s
}

// Network implements net.Addr.
func (s *server) Network() string { return "tcp" }

// String implements net.Addr.
func (s *server) String() string { return s.addr }

// PickServer implements memcache.ServerSelector.
func (s *server) PickServer(string) (net.Addr, error) { return s, nil }

// Each implements memcache.ServerSelector.
func (s *server) Each(f func(net.Addr) error) error { return f(s) }

func (sl *slot) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := (&net.Dialer{Deadline: sl.due.at}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{nc, sl}, nil
}

// A conn is a connection whose deadline is that of the call that uses it.
type conn struct {
	net.Conn
	slot *slot
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(time.Time) error { return c.Conn.SetDeadline(c.slot.due.at) }

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) { return c.again(c.Conn.Read, b) }

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) { return c.again(c.Conn.Write, b) }

// again goes on with what has come to its deadline, as long as that is put off.
func (c *conn) again(f func([]byte) (int, error), b []byte) (int, error) {
	n, err := f(b)
	for errors.Is(err, os.ErrDeadlineExceeded) && c.slot.due.more() {
		if err = c.Conn.SetDeadline(c.slot.due.at); err != nil {
			return n, err
		}
		var m int
		m, err = f(b[n:])
		n += m
	}
	return n, err
}

// do runs f on a connection of its own. Whatever f does ends when it is due.
func (s *server) do(ctx context.Context, by *due, f func(*memcache.Client) error) error {
	sl, waited, err := s.acquire(ctx, by)
	if err != nil {
		return err
	}
	sl.due = by
	if n := s.broken.Load(); sl.broken != n {
		// What an idle connection says on closing is nobody's business any more.
		_ = sl.client.Close()
		sl.broken = n
	}
	err = f(sl.client)
	switch {
	case err == nil, errors.Is(err, memcache.ErrCacheMiss), errors.Is(err, memcache.ErrNotStored):
		if s.failures.Load() != 0 {
			s.failures.Store(0)
		}
	case tooLate(err):
		err = fmt.Errorf("store memcached %s: no answer in time: %w", s.addr, err)
		if waited {
			// It had but a part of its time to ask.
			err = hurriedError{err}
		} else {
			err = s.failed(err)
		}
	default:
		if _, failed := errors.AsType[*net.OpError](err); failed || errors.Is(err, io.EOF) {
			s.broken.Add(1)
		}
		err = s.failed(fmt.Errorf("store memcached %s: %w", s.addr, err))
	}
	s.slots <- sl
	return err
}

// failuresInRow is how many calls a server fails running until it counts as lost.
const failuresInRow = 5

// failed notes that a call has failed by err, and returns that as an error of this
// server alone, if another is not lost.
func (s *server) failed(err error) error {
	s.failures.Add(1)
	for _, v := range s.all {
		if v != s && v.failures.Load() < failuresInRow {
			return &PartError{err}
		}
	}
	return err
}

// PartError: one of several servers did not answer. What is kept on the others is
// decided as ever.
type PartError struct{ Err error }

func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *PartError) Unwrap() error { return e.Err }

// Partial returns true: the error says nothing of the rest of the store, as package
// tier asks.
func (e *PartError) Partial() bool { return true }

// errBusy says nothing of the server: calls that have a connection do.
var errBusy error = busyError{}

type busyError struct{}

func (busyError) Error() string { return "all connections are in use: raise conns, or add servers" }

// Busy returns true, as package shared asks.
func (busyError) Busy() bool { return true }

// hurriedError is why a call failed that had to wait for its connection.
type hurriedError struct{ error }

// Unwrap returns the error.
func (e hurriedError) Unwrap() error { return e.error }

// Busy returns true: the error says nothing of the server, as package shared asks.
func (hurriedError) Busy() bool { return true }

// acquire waits for a slot until the call is due, and reports whether it had to wait.
func (s *server) acquire(ctx context.Context, by *due) (sl *slot, waited bool, err error) {
	wait := time.Until(by.at)
	if wait <= 0 && by.more() {
		wait = time.Until(by.at)
	}
	if wait <= 0 {
		return nil, false, fmt.Errorf("store memcached %s: no time left to ask: %w", s.addr, os.ErrDeadlineExceeded)
	}
	select {
	case sl := <-s.slots:
		return sl, false, nil
	default:
	}
	t := time.NewTimer(wait)
	defer t.Stop()
again:
	select {
	case sl := <-s.slots:
		return sl, true, nil
	case <-t.C:
		if by.more() {
			t.Reset(time.Until(by.at))
			goto again
		}
		return nil, true, fmt.Errorf("store memcached %s: %w: %w", s.addr, errBusy, os.ErrDeadlineExceeded)
	case <-ctx.Done():
		return nil, true, ctx.Err()
	case <-s.closed:
		return nil, true, weir.ErrClosed
	}
}

// close waits for the calls under way and ends all connections.
func (s *server) close() error {
	var errs []error
	for range cap(s.slots) {
		errs = append(errs, (<-s.slots).client.Close())
	}
	return errors.Join(errs...)
}

func tooLate(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	_, connecting := errors.AsType[*memcache.ConnectTimeoutError](err)
	return connecting
}

// tries is how often a key may be gone for incr and there for add.
const tries = 3

// add adds cost to the count of key and returns what it is then.
func (s *server) add(ctx context.Context, by *due, key string, cost int64, expire int32) (int64, error) {
	var count int64
	err := s.do(ctx, by, func(c *memcache.Client) error {
		for range tries {
			n, err := c.Increment(key, uint64(cost))
			if err == nil && n < uint64(cost) {
				// What was there came round to zero: it was no count.
				s.foreign.Add(1)
				n, err = c.Increment(key, uint64(cost)-n)
			}
			switch {
			case err == nil && n <= most:
				count = int64(n)
				return nil
			case err == nil, isForeign(err):
				if err := s.begin(c, key, expire); err != nil {
					return err
				}
				continue
			case !errors.Is(err, memcache.ErrCacheMiss):
				return err
			}
			err = c.Add(&memcache.Item{Key: key, Value: strconv.AppendInt(nil, cost, 10), Expiration: expire})
			if err == nil {
				count = cost
				return kept(c, key, expire)
			}
			if !errors.Is(err, memcache.ErrNotStored) {
				return err
			}
		}
		return fmt.Errorf("key %s was evicted %d times: the memory of the server is too small, or it is flushed", key, tries)
	})
	return count, err
}

// kept makes sure that a key with an absolute expiry is there. A server whose
// clock is ahead takes such a key for one that has ended, says that it is stored,
// and would forget every count at once.
func kept(c *memcache.Client, key string, expire int32) error {
	if expire <= maxRelative {
		return nil
	}
	_, err := c.Increment(key, 0)
	if errors.Is(err, memcache.ErrCacheMiss) {
		return errors.New("a window of more than 30 days was forgotten at once: set the clock of the server")
	}
	return err
}

// sub takes cost off the count of key and returns what it is then: zero if the
// key is gone.
func (s *server) sub(ctx context.Context, by *due, key string, cost int64) (int64, error) {
	var count int64
	err := s.do(ctx, by, func(c *memcache.Client) error {
		n, err := c.Decrement(key, uint64(cost))
		count = clamp(n)
		return err
	})
	if errors.Is(err, memcache.ErrCacheMiss) || isForeign(err) {
		return 0, nil
	}
	return count, err
}

// isForeign reports whether a server refused to count as a key holds no number.
func isForeign(err error) bool { return err != nil && strings.Contains(err.Error(), "non-numeric") }

// begin has a key that holds what is no count begin at zero, unless somebody else has
// written it meanwhile.
func (s *server) begin(c *memcache.Client, key string, expire int32) error {
	item, err := c.Get(key)
	switch {
	case errors.Is(err, memcache.ErrCacheMiss):
		return nil
	case err != nil:
		return err
	}
	if _, bad := parseCount(item.Value); bad == nil {
		return nil
	}
	item.Value, item.Flags, item.Expiration = []byte("0"), 0, expire
	err = c.CompareAndSwap(item)
	switch {
	case err == nil:
		s.foreign.Add(1)
		return nil
	case errors.Is(err, memcache.ErrCASConflict), errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCacheMiss):
		return nil
	}
	return err
}

// get fills in the counts of keys; those not there are zero.
func (s *server) get(ctx context.Context, by *due, counters []*counter) error {
	return s.do(ctx, by, func(c *memcache.Client) error {
		var items map[string]*memcache.Item
		if len(counters) == 1 {
			item, err := c.Get(counters[0].key)
			if err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
				return err
			}
			if err == nil {
				items = map[string]*memcache.Item{item.Key: item}
			}
		} else {
			keys := make([]string, len(counters))
			for i, k := range counters {
				keys[i] = k.key
			}
			var err error
			if items, err = c.GetMulti(keys); err != nil {
				return err
			}
		}
		for _, k := range counters {
			k.count = 0
			if item := items[k.key]; item != nil {
				n, err := parseCount(item.Value)
				if err != nil {
					if err := s.begin(c, k.key, k.expire); err != nil {
						return err
					}
				}
				k.count = n
			}
		}
		return nil
	})
}

// most is more than a count can be: counts end at [weir.MaxCost], and what is added at
// the same time is taken off again.
const most = 1 << 60

// parseCount reads a count. A decr that makes a number shorter leaves spaces
// behind it. It is zero where value is none.
func parseCount(value []byte) (int64, error) {
	for len(value) > 0 && value[len(value)-1] == ' ' {
		value = value[:len(value)-1]
	}
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err == nil && n > most {
		err = strconv.ErrRange
	}
	if err != nil {
		return 0, err
	}
	return int64(n), nil
}

// clamp returns n as a count.
func clamp(n uint64) int64 { return int64(min(n, most)) }
