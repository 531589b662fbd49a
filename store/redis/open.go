package redis

import (
	"context"

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
// An error says what to change. Close the store to end its background work. With
// [Options].Late a store is opened whose servers cannot be reached yet.
func Open(ctx context.Context, text string, opt Options) (*Store, error) {
	a, err := parseURL(text, opt)
	if err != nil {
		return nil, err
	}
	return a.openStore(ctx, serverTime)
}

// openStore connects. head is how scripts tell the time.
func (a *address) openStore(ctx context.Context, head string) (*Store, error) {
	s := &Store{name: a.text, opt: a.Options, faults: faults.New(a.Logger), version: a.version}
	s.inside = inside{s}
	s.plans.scripts.time = head
	var err error
	if s.nodes, err = a.connect(ctx, s); err != nil {
		return nil, s.explainOpen(err)
	}
	s.queue = transport.NewOwnQueue(s, transport.Options{Budget: s.opt.Timeout, Timeout: s.opt.callTimeout(), Waiting: defaultInFlight, Mark: transport.NewMark(algorithm.FixedWindow)})
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if s.plans.list.wake = make(chan struct{}, 1); head == serverTime {
		_ = s.syncVersions(ctx) // it is tried again, and told then
		s.ending.Go(func() { s.keepListed(ctx) })
	}
	if why := s.NotReached(); why != nil {
		s.ending.Go(func() { s.reachLater(ctx, why) })
	}
	return s, nil
}

func (a *address) connect(ctx context.Context, s *Store) (nodes, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if a.kind == ringed {
		return a.connectRing(ctx, s)
	}
	var l *link
	l = newLink(a.text, a.Logger, func(ctx context.Context) (rueidis.Client, error) {
		if a.kind == clustered && !l.hasClient() {
			if err := a.examineFirst(ctx); err != nil {
				return nil, err
			}
		}
		return a.connectServers(ctx, a.hosts)
	})
	if err := l.connectFirst(ctx, a.Late); err != nil {
		l.close()
		return nil, err
	}
	if a.kind != clustered {
		return one{[]*pipeline{{0, s, l}}}, nil
	}
	return a.newCluster(s, l), nil
}
