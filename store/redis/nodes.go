package redis

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
)

// nodes are the servers behind a store.
type nodes interface {
	// pipelines are the pipelines, one for each shard.
	pipelines() []*pipeline
	// routeTag tells where the keys of a tag are. Keys of one place are decided in
	// one script.
	routeTag(tag string) route
	// isMoved reports whether a key that n decides is kept by a server that is lost.
	isMoved(n *pipeline, key string) bool
	// reachServers connects to servers of which none was reached yet.
	reachServers(ctx context.Context) error
	// probeShard finds out whether a shard answers. The others are told when its breaker
	// opens and closes.
	probeShard(ctx context.Context, shard int) error
	breakerOpened(shard int, err error)
	breakerClosed(shard int)
	close()
}

// A route is a pipeline to a server. Keys of one slot are decided in one script: that of a
// cluster, or the number of a server, below zero while that has the keys of another.
type route struct {
	*pipeline
	slot   int
	server *server // of a ring
}

// askServer runs f with the client of the server, unless that is lost: then there may be none.
func (p *route) askServer(f func(rueidis.Client) error) (err error) {
	if p.isLost() {
		return p.store.whyLost()
	}
	p.useClient(func(client rueidis.Client) { err = p.explain(f(client)) })
	return err
}

// one is a single server, or a primary that Sentinels watch over; and what a store of
// several has in common with it.
type one struct{ shards []*pipeline }

func (o one) pipelines() []*pipeline { return o.shards }

func (o one) routeTag(string) route { return route{pipeline: o.shards[0]} }

func (o one) isMoved(*pipeline, string) bool { return false }

func (o one) reachServers(ctx context.Context) error { return o.shards[0].reconnect(ctx) } // all have one link

// probeShard asks for a write that changes nothing, of a key that there is not: a server whose memory
// is full refuses it, though it reads, and lets some scripts write. It is never lost.
func (o one) probeShard(ctx context.Context, _ int) (err error) {
	p := o.shards[0]
	if !p.hasClient() {
		return p.missing
	}
	p.useClient(func(client rueidis.Client) {
		err = client.Do(ctx, client.B().Setrange().Key(p.store.opt.Prefix+":{probe}:probe").Offset(0).Value("").Build()).Error()
	})
	if err != nil && isRefused(err) && strings.Contains(err.Error(), "OOM ") {
		return p.explain(err)
	}
	return nil
}

func (o one) breakerOpened(int, error) {}

func (o one) breakerClosed(int) {}

func (o one) close() {
	for _, p := range o.shards {
		p.close()
	}
}

// countLostShards returns how many shards are.
func (s *Store) countLostShards() (n int) {
	for _, p := range s.nodes.pipelines() {
		if p.isLost() {
			n++
		}
	}
	return n
}

// runOutsideQueue runs c on the server of p, outside of the queue, and reports whether all passed.
func (s *Store) runOutsideQueue(ctx context.Context, p route, c *call) (pass bool, err error) {
	s.appendTime(c)
	s.stats.calls.Add(1)
	if p.runCalls(ctx, []*call{c}, true, func(_ *call, failed error) { err = failed }); err == nil && len(c.reply) == 0 {
		err = errReply
	}
	if err != nil {
		s.stats.errors.Add(1)
		return false, p.explained(err)
	}
	return c.reply[0]&1 == 1, nil
}

// labelMoved says of a decision on o that another server made it than the one that keeps the key.
func (d driver) labelMoved(n *pipeline, o *weir.Op, decision *weir.Decision) {
	if d.nodes.isMoved(n, o.Key) {
		d.stats.moved.Add(1)
		decision.Limit = o.Limit.From(weir.FromSuccessor)
	}
}
