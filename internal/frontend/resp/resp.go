// Package resp is the way in over the Redis protocol, RESP2 and RESP3: clients
// and tools of Redis talk to a limiter as they would to a Redis that has the
// module redis-cell.
//
// CL.THROTTLE, and RL.THROTTLE which is the same, decide by numbers that come
// with the call. WEIR.CHECK and its kin decide by the rules of the [weir.Limiter].
// The rest is what clients need to connect. docs/reference/redis-protocol.md lists all of
// it.
//
// Whatever stands in one read is decided together and answered by one write, in
// order. Everything that a client can stretch is bounded, before and after it
// has authenticated: see the constants below.
package resp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/listen"
)

// Keyring is a store whose keys can be forgotten one by one.
type Keyring interface {
	// Forget makes a key as if it had never been seen, and reports whether it
	// was.
	Forget(ctx context.Context, key string, l *weir.Limit) (found bool, err error)
}

// Options configures a [Server].
type Options struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Keyring serves WEIR.RESET and DEL. Nil means that they answer an error.
	Keyring Keyring
	// Check says why the store cannot keep a limit of CL.THROTTLE. Nil means
	// that it can.
	Check func(*weir.Limit) error
	// Priority is that of checks that name none, 0 the highest. Zero means the
	// highest.
	Priority int
	// Strict refuses, by an error, what the rules do not have. See WEIR.CHECK.
	Strict bool
	// Parallel is how many decisions of one batch are asked of the store at a
	// time, up to MaxParallel; those on one key follow each other. Zero means one,
	// which is right for a store in this process.
	Parallel int
	// User is the name that AUTH must give beside the password. Zero means
	// "default", which clients may leave out.
	User string
	// Password is what AUTH must give. Zero means that nobody has to
	// authenticate.
	Password string
	// Guesses bounds wrong passwords of one address, on however many connections.
	// Nil means ten on each connection.
	Guesses *guesses.Bound
	// TLS encrypts. Nil means plain text.
	TLS *tls.Config
	// MaxClients is the most connections at once, a quarter of them for one client:
	// an IPv4 address, or an IPv6 /64. The connection that is idle for longest is
	// closed for a new one; where none is idle, the new one is told so and closed.
	// Zero means 4096.
	MaxClients int
	// Shared reports whether many clients come from an address, which then may have
	// as many connections as there are. Nil means that loopback alone does so.
	Shared func(netip.Addr) bool
	// Connections counts those that are not let in, or not kept. Nil means that
	// nothing does.
	Connections *listen.Counts
	// IdleTimeout is how long a connection may send nothing. Zero means without
	// end; one whose machine is gone ends by the probes of TCP.
	IdleTimeout time.Duration
	// Timeout is how long a client may take to authenticate, to send the rest of
	// a command that it has begun, and to take in its replies. Zero means ten
	// seconds.
	Timeout time.Duration
	// DrainDelay is how long to keep accepting after the context of Serve has
	// ended, DrainTimeout how long connections have after that to finish. Zero
	// means at once, and ten seconds.
	DrainDelay, DrainTimeout time.Duration
	// Version is the binary's, for INFO. Zero means unknown.
	Version string
	// Batch is told how many commands one read held, and how long their replies
	// took. Nil means nobody.
	Batch func(commands int, took time.Duration)
	// Log is told of store errors, at most one a second. Nil means nobody.
	Log *slog.Logger
}

// MaxParallel bounds Options.Parallel.
const MaxParallel = 64

// Bounds on what a client sends and on what is kept for it, in bytes but for the
// counts.
const (
	// Of a command: its arguments, one of them, and all of it.
	maxArgs    = 1024
	maxBulk    = 64 << 10
	maxCommand = 128 << 10
	// The same before the client has authenticated.
	maxEarlyArgs    = 16
	maxEarlyBulk    = 4 << 10
	maxEarlyCommand = 8 << 10
	// All commands before the client has authenticated.
	maxEarly = 1 << 20
	// A connection reads into smallBuffer, under load into usualBuffer. All that
	// have more share maxLarge.
	smallBuffer = 4 << 10
	usualBuffer = 16 << 10
	maxLarge    = 64 << 20
	// Replies are written when there are so many bytes of them.
	flushAt = 16 << 10
	// Decisions that are asked for together.
	maxPending = 256
	// Decisions of all connections that are asked of the store beside each other.
	maxWorkers = 2048
	// Wrong passwords on one connection.
	maxWrongPasswords = 10
)

// Server serves the protocol. Safe for concurrent use.
type Server struct {
	opt      Options
	limiter  *weir.Limiter
	began    time.Time
	limits   limits
	commands commands
	outs     sync.Pool // of *[]byte

	mu    sync.Mutex
	conns map[*conn]struct{}
	done  sync.WaitGroup
	// ctx is that of every decision; it ends when connections are cut.
	ctx context.Context
	cut context.CancelFunc
	// drainBy is when connections end, in nanoseconds since the Unix epoch; zero
	// while the server does not drain.
	drainBy atomic.Int64

	ids, accepted, handled, wrong, broken, slow, crowded atomic.Uint64
	large, workers                                       atomic.Int64
	seed                                                 maphash.Seed
	faults                                               *faults.Log
}

// New returns a server. It returns an error when a required option is missing or
// one is out of range.
func New(opt Options) (*Server, error) {
	switch {
	case opt.Limiter == nil:
		return nil, errors.New("resp: no limiter: set Options.Limiter")
	case opt.Parallel < 0 || opt.Parallel > MaxParallel:
		return nil, fmt.Errorf("resp: parallel decisions %d must be between 0 and %d", opt.Parallel, MaxParallel)
	case opt.MaxClients < 0:
		return nil, fmt.Errorf("resp: max clients %d must not be negative", opt.MaxClients)
	case opt.IdleTimeout < 0 || opt.Timeout < 0 || opt.DrainDelay < 0 || opt.DrainTimeout < 0:
		return nil, fmt.Errorf("resp: idle timeout %s, timeout %s, drain delay %s and drain timeout %s must not be negative",
			opt.IdleTimeout, opt.Timeout, opt.DrainDelay, opt.DrainTimeout)
	case opt.User != "" && opt.Password == "":
		return nil, fmt.Errorf("resp: user %q has no password: set Options.Password", opt.User)
	case len(opt.User) > maxEarlyBulk || len(opt.Password) > maxEarlyBulk:
		return nil, fmt.Errorf("resp: user and password may have at most %d bytes each", maxEarlyBulk)
	}
	opt.Timeout = cmp.Or(opt.Timeout, 10*time.Second)
	opt.DrainTimeout = cmp.Or(opt.DrainTimeout, 10*time.Second)
	opt.MaxClients = cmp.Or(opt.MaxClients, 4096)
	opt.User = cmp.Or(opt.User, defaultUser)
	opt.Connections = cmp.Or(opt.Connections, new(listen.Counts))
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	s := &Server{
		opt: opt, limiter: opt.Limiter, began: time.Now(),
		conns: map[*conn]struct{}{}, seed: maphash.MakeSeed(), faults: faults.New(opt.Log),
	}
	s.outs.New = func() any { b := make([]byte, 0, smallBuffer); return &b }
	s.ctx, s.cut = context.WithCancel(context.Background())
	s.commands = newCommands()
	if err := s.limits.compileBase(opt.Check); err != nil {
		return nil, err
	}
	return s, nil
}

// Throttle returns the limit whose counters count the decisions of CL.THROTTLE,
// whatever their numbers.
func (s *Server) Throttle() *weir.Limit { return s.limits.base[0] }
