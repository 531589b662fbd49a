package counter

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/redact"
)

// RedisServer says where a Redis is. What the comments name in capitals is the
// variable of envoyproxy/ratelimit for the same.
type RedisServer struct {
	// URL is HOST:PORT, the path of a socket, or redis://user:password@HOST:PORT/DB;
	// for a cluster several of these with commas between them, for Sentinels the
	// name of the primary before them (REDIS_URL). Auth goes before what a URL says.
	URL string
	// Type is single, sentinel or cluster, in any case (REDIS_TYPE). Zero means
	// single.
	Type string
	// Network is tcp or unix (REDIS_SOCKET_TYPE). Zero means tcp.
	Network string
	// Auth is a password, or user:password (REDIS_AUTH). Zero means none.
	Auth string
	// SentinelAuth is the same for Sentinels (REDIS_SENTINEL_AUTH). Zero means
	// none.
	SentinelAuth string
	// TLS says how to speak TLS (REDIS_TLS and others). Zero means not at all.
	TLS *tls.Config
	// Timeout bounds each connection and each call (REDIS_TIMEOUT). Zero means 10
	// seconds.
	Timeout time.Duration
	// OnConnections is told how many connections there are whenever that changes.
	// It must not block. Zero means nobody is told.
	OnConnections func(active uint64)
}

const defaultTimeout = 10 * time.Second

func (s *RedisServer) timeout() time.Duration { return cmp.Or(max(s.Timeout, 0), defaultTimeout) }

// option returns what the client library is told.
func (s *RedisServer) option() (rueidis.ClientOption, *connections, error) {
	conns := &connections{onCount: s.OnConnections}
	dialer := net.Dialer{Timeout: s.timeout(), KeepAlive: time.Second}
	o := rueidis.ClientOption{
		InitAddress: strings.Split(s.URL, ","),
		Dialer:      dialer, TLSConfig: s.TLS,
		// A connection on which nothing moves is given up after this. Calls have
		// their own, shorter bound.
		ConnWriteTimeout: max(s.timeout(), time.Second),
		// Proxies such as twemproxy know no more than they must. Nothing is sent
		// twice.
		AlwaysRESP2: true, DisableCache: true, DisableRetry: true, ClientSetInfo: rueidis.DisableClientSetInfo,
		ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10,
		// One connection: commands that wait go out together.
		PipelineMultiplex: -1,
	}
	var err error
	o.Username, o.Password = credentials(s.Auth)
	network := cmp.Or(s.Network, "tcp")
	switch strings.ToLower(s.Type) {
	case "", "single":
		o.InitAddress, o.ForceSingleClient = []string{s.URL}, true
		o.SelectDB, err = readURLs(o.InitAddress, &o.Username, &o.Password)
	case "sentinel":
		if len(o.InitAddress) < 2 {
			return o, nil, errors.New("expected master name and a list of urls for the sentinels, in the format: <redis master name>,<sentinel1>,...,<sentineln>")
		}
		o.Sentinel = rueidis.SentinelOption{MasterSet: o.InitAddress[0], Dialer: dialer, TLSConfig: s.TLS,
			// In case that the message of a failover is missed.
			TopologyRefreshInterval: time.Second}
		o.Sentinel.Username, o.Sentinel.Password = credentials(s.SentinelAuth)
		o.InitAddress = o.InitAddress[1:]
		_, err = readURLs(o.InitAddress, &o.Sentinel.Username, &o.Sentinel.Password)
	case "cluster":
		_, err = readURLs(o.InitAddress, &o.Username, &o.Password)
		o.ClusterOption = rueidis.ClusterOption{ShardsRefreshInterval: 5 * time.Second, MaxMovedRedirections: 5}
	default:
		return o, nil, fmt.Errorf("unrecognized redis type %s: write single, sentinel or cluster", s.Type)
	}
	if err != nil {
		return o, nil, err
	}
	single, sentinel := o.ForceSingleClient, o.Sentinel.MasterSet != ""
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		// What a Sentinel or a cluster tells are hosts.
		dial := d.DialContext
		if config != nil {
			dial = (&tls.Dialer{NetDialer: d, Config: config}).DialContext
		}
		conn, err := conns.countDialed(dial(ctx, network, addr))
		if err != nil {
			return nil, err
		}
		if !sentinel { // who tells of failovers without being asked
			conn = &guard{Conn: conn}
		}
		if single {
			conn = leaveHelloOut(conn)
		}
		return conn, nil
	}
	return o, conns, nil
}

// credentials reads "password" or "user:password".
func credentials(auth string) (user, password string) {
	if user, password, ok := strings.Cut(auth, ":"); ok {
		return user, password
	}
	return "", auth
}

// readURLs takes the hosts of those addresses that are redis:// URLs, and the
// credentials of the first that has some, for what is not set otherwise. It
// returns the number of the database that is named, 0 if none is.
func readURLs(addrs []string, user, password *string) (db int, err error) {
	for i, text := range addrs {
		if !strings.HasPrefix(text, "redis://") {
			continue
		}
		u, err := url.Parse(text)
		if err != nil {
			// What url says holds the password.
			return 0, fmt.Errorf("redis %s: not a URL of the form redis://user:password@host:port/db", redact.URL(text))
		}
		q := u.Query()
		secret, _ := u.User.Password()
		*user = cmp.Or(*user, u.User.Username(), q.Get("username"))
		*password = cmp.Or(*password, secret, q.Get("password"))
		if name := cmp.Or(strings.TrimPrefix(u.Path, "/"), q.Get("db")); name != "" {
			if db, err = strconv.Atoi(name); err != nil || db < 0 {
				return 0, fmt.Errorf("redis %s: the database %q is no number", redact.URL(text), name)
			}
		}
		if addrs[i] = u.Host; u.Port() == "" {
			addrs[i] = net.JoinHostPort(u.Hostname(), "6379")
		}
	}
	return db, nil
}

// connections counts the connections to a server.
type connections struct {
	active, total, closed atomic.Uint64
	// mu keeps what is told in order.
	mu      sync.Mutex
	onCount func(active uint64)
}

func (c *connections) stats() RedisStats {
	return RedisStats{Active: c.active.Load(), Total: c.total.Load(), Closed: c.closed.Load()}
}

func (c *connections) countDialed(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	c.total.Add(1)
	c.changeActive(1)
	return &counted{Conn: conn, of: c}, nil
}

func (c *connections) changeActive(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	active := c.active.Add(uint64(by))
	if c.onCount != nil {
		c.onCount(active)
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	of   *connections
	once sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() {
		c.of.closed.Add(1)
		c.of.changeActive(-1)
	})
	return c.Conn.Close()
}
