package counter

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/faults"
)

// MemcachedOptions configures a Memcached. What the comments name in capitals is
// the variable of envoyproxy/ratelimit for the same.
type MemcachedOptions struct {
	// Servers are HOST:PORT each (MEMCACHE_HOST_PORT).
	Servers []string
	// Lookup returns the servers instead; it is asked when the store is opened and
	// every Refresh (MEMCACHE_SRV, MEMCACHE_SRV_REFRESH). Zero means Servers.
	Lookup func(context.Context) ([]string, error)
	// Refresh is how often Lookup is asked again. Zero means never.
	Refresh time.Duration
	// MaxIdleConns is how many connections to a server are kept
	// (MEMCACHE_MAX_IDLE_CONNS). Zero means 2.
	MaxIdleConns int
	// TLS says how to speak TLS (MEMCACHE_TLS and others). Zero means not at all.
	TLS *tls.Config
	// JitterSeconds is as in RedisOptions.
	JitterSeconds int64
	// Logger is told of what failed, as requests are not. Zero means nobody is
	// told.
	Logger *slog.Logger
}

// Memcached keeps counters as envoyproxy/ratelimit keeps them there: the count is
// read, the request decided by what it will be, and the hits added afterwards. So
// requests at the same time can all pass by the same count.
//
// It fails open: a count that cannot be read, as one whose key is longer than 250
// bytes, is 0. The logger and Stats tell. Safe for concurrent use.
type Memcached struct {
	opt    MemcachedOptions
	client *memcache.Client
	stats  MemcachedStats
	// room bounds the additions under way.
	room   chan struct{}
	adding sync.WaitGroup
	mu     sync.RWMutex // of closed, and of beginning an addition
	closed bool
	stop   context.CancelFunc
	done   chan struct{}
	faults *faults.Log
}

// MemcachedStats counts what was asked of the servers.
type MemcachedStats struct {
	MultiGets, MultiGetErrors                    atomic.Uint64
	Increments, IncrementMisses, IncrementErrors atomic.Uint64
	Adds, AddErrors, AddNotStored                atomic.Uint64
	KeysRequested, KeysFound                     atomic.Uint64
}

// maxAdding is how many requests may be adding what they have been told already.
// Beyond, a request adds before it is answered.
const maxAdding = 512

// OpenMemcached returns a store. It connects when it is used.
func OpenMemcached(ctx context.Context, o MemcachedOptions) (*Memcached, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	servers := new(memcache.ServerList)
	m := &Memcached{opt: o, room: make(chan struct{}, maxAdding), done: make(chan struct{}), faults: faults.New(o.Logger)}
	list := o.Servers
	var err error
	if o.Lookup != nil {
		if list, err = o.Lookup(ctx); err != nil {
			return nil, err
		}
	}
	if err := servers.SetServers(list...); err != nil {
		return nil, err
	}
	m.client = memcache.NewFromSelector(servers)
	m.client.MaxIdleConns = o.MaxIdleConns
	if o.TLS != nil {
		m.client.DialContext = (&tls.Dialer{Config: o.TLS}).DialContext
	}
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	go m.refresh(ctx, servers)
	return m, nil
}

// refresh asks for the servers again and again.
func (m *Memcached) refresh(ctx context.Context, servers *memcache.ServerList) {
	defer close(m.done)
	if m.opt.Lookup == nil || m.opt.Refresh <= 0 {
		return
	}
	for backoff.Sleep(ctx, m.opt.Refresh) {
		list, err := m.opt.Lookup(ctx)
		if err == nil {
			err = servers.SetServers(list...)
		}
		if err != nil && ctx.Err() == nil {
			m.opt.Logger.Warn("memcached server lookup failed; the last servers stay in use", "error", err)
		}
	}
}

// Add implements Store. Its counts are those that the hits will make of what was
// read; hits of one request on the same key do not see each other.
func (m *Memcached) Add(_ context.Context, now int64, hits []Hit) error {
	m.mu.RLock()
	if m.closed {
		m.mu.RUnlock()
		return ErrClosed
	}
	m.adding.Add(1)
	m.mu.RUnlock()
	later := slices.Clone(hits)
	keys := make([]string, len(hits))
	for i := range hits {
		keys[i] = string(hits[i].Key)
	}
	items := m.readItems(keys)
	for i := range hits {
		h := &hits[i]
		h.Count = 0
		if item := items[keys[i]]; item != nil {
			// A count that got shorter has spaces behind it.
			n, err := strconv.ParseUint(string(bytes.TrimRight(item.Value, " ")), 10, 31)
			if err != nil {
				m.complain("a count in memcached is no number below 2^31 and is taken for 0", keys[i], err)
				n = 0
			}
			h.Count = n
		}
		if h.Back {
			h.Count -= min(h.Count, h.Hits)
		} else {
			h.Count += h.Hits
		}
	}
	add := func() {
		defer m.adding.Done()
		for i := range later {
			m.changeCounter(now, keys[i], &later[i])
		}
	}
	select {
	case m.room <- struct{}{}:
		go func() {
			defer func() { <-m.room }()
			add()
		}()
	default:
		add()
	}
	return nil
}

func (m *Memcached) readItems(keys []string) map[string]*memcache.Item {
	m.stats.KeysRequested.Add(uint64(len(keys)))
	items, err := m.client.GetMulti(keys)
	if err != nil {
		m.stats.MultiGetErrors.Add(1)
		m.complain("counts could not be read from memcached and are taken for 0", keys[0], err)
		return items
	}
	m.stats.MultiGets.Add(1)
	m.stats.KeysFound.Add(uint64(len(items)))
	return items
}

// changeCounter changes one counter. A counter that is not there must be made, and another
// request may be faster.
func (m *Memcached) changeCounter(now int64, key string, h *Hit) {
	err := m.increment(key, h)
	if errors.Is(err, memcache.ErrCacheMiss) {
		if h.Back {
			return
		}
		err = m.client.Add(&memcache.Item{Key: key, Value: strconv.AppendUint(nil, h.Hits, 10), Expiration: m.expiry(now, h)})
		switch {
		case err == nil:
			m.stats.Adds.Add(1)
		case errors.Is(err, memcache.ErrNotStored):
			m.stats.AddNotStored.Add(1)
			err = m.increment(key, h)
		default:
			m.stats.AddErrors.Add(1)
		}
	}
	if err != nil {
		m.complain("hits could not be counted in memcached", key, err)
	}
}

func (m *Memcached) increment(key string, h *Hit) (err error) {
	if h.Back {
		_, err = m.client.Decrement(key, h.Hits)
	} else {
		_, err = m.client.Increment(key, h.Hits)
	}
	switch {
	case err == nil:
		m.stats.Increments.Add(1)
	case errors.Is(err, memcache.ErrCacheMiss):
		m.stats.IncrementMisses.Add(1)
	default:
		m.stats.IncrementErrors.Add(1)
	}
	return err
}

// maxRelative is the longest expiry that memcached takes for a number of seconds.
// What is longer it takes for a time.
const maxRelative = 30 * 86400

func (m *Memcached) expiry(now int64, h *Hit) int32 {
	// Its clock ticks once a second: what is to live for one may be gone at once.
	seconds := h.Period + 1
	if m.opt.JitterSeconds > 0 {
		seconds += rand.Int64N(m.opt.JitterSeconds)
	}
	if seconds > maxRelative {
		seconds += now
	}
	return int32(min(seconds, maxExpiry))
}

// complain tells the logger once a second at most.
func (m *Memcached) complain(what, key string, err error) {
	if m.faults.IsDue() {
		m.opt.Logger.Error(what, "key", key, "error", err)
	}
}

// Stats returns what was asked of the servers until now, and counts on.
func (m *Memcached) Stats() *MemcachedStats { return &m.stats }

// WaitForAdds waits until what requests were told is added. No Add may run beside it.
func (m *Memcached) WaitForAdds() { m.adding.Wait() }

// Close implements Store. It waits for additions under way.
func (m *Memcached) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.adding.Wait()
	<-m.done
	return m.client.Close()
}
