package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Open connects to the servers that a URL names, and checks that they can keep
// limits:
//
//	redis://user:password@host:port/database
//	redis+unix:///path/to/socket?db=1
//	redis+sentinel://host1,host2/primary/database
//	redis+cluster://host1,host2
//	redis+ring://host1,host2,host3/database
//
// Written with rediss for redis, they are spoken to by TLS. Parameters: prefix,
// timeout, in_flight, ring_on_loss (move or policy), db, sentinel_user,
// sentinel_password, tls, tls_ca, tls_cert, tls_key, tls_server_name.
//
// An error says what to change. Close the store to end its background work.
func Open(ctx context.Context, text string, opt Options) (*Store, error) {
	a, err := parse(text, opt)
	if err != nil {
		return nil, err
	}
	return a.open(ctx, serverTime)
}

// open connects. head is how scripts tell the time.
func (a *address) open(ctx context.Context, head string) (*Store, error) {
	s := &Store{opt: a.Options, faults: faults.New(a.Logger), version: a.version}
	s.inside = inside{s}
	s.plans.scripts.time = head
	var err error
	if s.nodes, err = a.connect(ctx, s); err != nil {
		return nil, fmt.Errorf("%s: %w", a.text, explainOpen(err))
	}
	s.queue = transport.NewOwn(s, transport.Options{Budget: s.opt.Timeout, Timeout: s.opt.callTimeout(), Waiting: defaultInFlight, Mark: transport.NewMark(algorithm.FixedWindow)})
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if s.plans.list.wake = make(chan struct{}, 1); head == serverTime {
		_ = s.sync(ctx) // it is tried again, and told then
		s.ending.Go(func() { s.keepListed(ctx) })
	}
	return s, nil
}

// openWithin is how long opening may take, however long the caller would wait.
const openWithin = 10 * time.Second

func (a *address) connect(ctx context.Context, s *Store) (nodes, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if a.kind == ringed {
		return a.connectRing(ctx, s)
	}
	if a.kind == clustered {
		if err := a.examineFirst(ctx); err != nil {
			return nil, err
		}
	}
	connect := func(ctx context.Context) (rueidis.Client, error) { return a.connectServers(ctx, a.hosts) }
	client, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	l := newLink(a.text, a.Logger, client, connect)
	if a.kind != clustered {
		return one{[]*pipeline{{0, s, l}}}, nil
	}
	return a.newCluster(s, l), nil
}
