package memcached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// A server is one Memcached and the connections to it. It is the one address
// that its own clients choose from.
type server struct {
	addr string
	hash uint64
	// slots are the connections that no call uses.
	slots chan *slot
	// broken counts connections that ended unasked. Those that are idle since
	// before then are not used again: a server that was restarted fails the calls
	// that were under way, and not one more for each idle connection.
	broken atomic.Uint64
	// missing is why it was not reached since Probe has not found it. Nil if it was.
	missing atomic.Pointer[error]
	// foreign counts keys that held what is no count.
	foreign atomic.Uint64
}

// A slot is one connection at most, used by one call at a time. The client
// library knows one timeout for all calls, and starts it anew with each step; a
// client of its own for each slot lets the deadline be the call's.
type slot struct {
	*server
	client *memcache.Client
	due    time.Time
	known  uint64 // of broken
}

func newServer(addr string, o *Options) *server {
	s := &server{addr: addr, hash: hash(addr), slots: make(chan *slot, o.MaxConns)}
	for range o.MaxConns {
		sl := &slot{server: s, client: memcache.NewFromSelector(s)}
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

// errorf returns an error of this server.
func (s *server) errorf(format string, args ...any) error {
	return storeErrorf(s.addr+": "+format, args...)
}

// close ends all connections, once no call uses them.
func (s *server) close() error {
	var all []*slot
	for range cap(s.slots) {
		all = append(all, <-s.slots)
	}
	var errs []error
	for _, sl := range all {
		errs = append(errs, sl.client.Close())
		s.slots <- sl
	}
	return errors.Join(errs...)
}

func (sl *slot) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := (&net.Dialer{Deadline: sl.due}).DialContext(ctx, network, address)
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
func (c *conn) SetDeadline(time.Time) error { return c.Conn.SetDeadline(c.slot.due) }

// useClient runs f on the connection. Whatever f does ends when it is due.
func (sl *slot) useClient(by time.Time, f func(*memcache.Client) error) error {
	sl.due = by
	if n := sl.broken.Load(); sl.known != n {
		// What an idle connection says on closing is of no interest any more.
		_ = sl.client.Close()
		sl.known = n
	}
	err := f(sl.client)
	switch {
	case err == nil, errors.Is(err, memcache.ErrCacheMiss), errors.Is(err, memcache.ErrNotStored):
		return err
	case tooLate(err):
		return sl.errorf("no answer in time: %w", err)
	}
	if _, failed := errors.AsType[*net.OpError](err); failed || errors.Is(err, io.EOF) {
		sl.broken.Add(1)
	}
	return sl.errorf("%w", err)
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

// incrementKey adds cost to the count of key and returns what it is then.
func (sl *slot) incrementKey(by time.Time, key string, cost int64, expire int32) (int64, error) {
	var count int64
	err := sl.useClient(by, func(c *memcache.Client) error {
		for range tries {
			n, err := c.Increment(key, uint64(cost))
			if err == nil && n < uint64(cost) {
				// What was there came round to zero: it was no count.
				sl.foreign.Add(1)
				n, err = c.Increment(key, uint64(cost)-n)
			}
			switch {
			case err == nil && n <= most:
				count = int64(n)
				return nil
			case err == nil, isForeign(err):
				if err := sl.resetForeignKey(c, key, expire); err != nil {
					return err
				}
				continue
			case !errors.Is(err, memcache.ErrCacheMiss):
				return err
			}
			err = c.Add(&memcache.Item{Key: key, Value: strconv.AppendInt(nil, cost, 10), Expiration: expire})
			if err == nil {
				count = cost
				return ensureKept(c, key, expire)
			}
			if !errors.Is(err, memcache.ErrNotStored) {
				return err
			}
		}
		return fmt.Errorf("key %s was evicted %d times: the memory of the server is too small, or it is flushed", key, tries)
	})
	return count, err
}

// ensureKept makes sure that a key with an absolute expiry is there. A server whose
// clock is ahead takes such a key for one that has ended, says that it is stored,
// and would forget every count at once.
func ensureKept(c *memcache.Client, key string, expire int32) error {
	if expire <= maxRelative {
		return nil
	}
	_, err := c.Increment(key, 0)
	if errors.Is(err, memcache.ErrCacheMiss) {
		return errors.New("a window of more than 30 days was forgotten at once: set the clock of the server")
	}
	return err
}

// decrementKey takes cost off the count of key and returns what it is then: zero if the
// key is gone.
func (sl *slot) decrementKey(by time.Time, key string, cost int64) (int64, error) {
	var count int64
	err := sl.useClient(by, func(c *memcache.Client) error {
		n, err := c.Decrement(key, uint64(cost))
		count = int64(min(n, most))
		return err
	})
	if errors.Is(err, memcache.ErrCacheMiss) || isForeign(err) {
		return 0, nil
	}
	return count, err
}

// isForeign reports whether a server refused to count as a key holds no number.
func isForeign(err error) bool { return err != nil && strings.Contains(err.Error(), "non-numeric") }

// resetForeignKey has a key that holds what is no count begin at zero, unless somebody else has
// written it meanwhile.
func (sl *slot) resetForeignKey(c *memcache.Client, key string, expire int32) error {
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
		sl.foreign.Add(1)
		return nil
	case errors.Is(err, memcache.ErrCASConflict), errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCacheMiss):
		return nil
	}
	return err
}

// readCounts fills in the counts of keys; those not there are zero.
func (sl *slot) readCounts(by time.Time, counters []*counter) error {
	return sl.useClient(by, func(c *memcache.Client) error {
		keys := make([]string, len(counters))
		for i, k := range counters {
			keys[i] = k.key
		}
		items, err := c.GetMulti(keys)
		if err != nil {
			return err
		}
		for _, k := range counters {
			k.count = 0
			if item := items[k.key]; item != nil {
				n, err := parseCount(item.Value)
				if err != nil {
					if err := sl.resetForeignKey(c, k.key, k.expire); err != nil {
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
