package redis

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/faults"
)

// cluster is a Redis Cluster. Each pipeline has a range of slots: as the servers of a
// cluster have ranges too, one that does not answer holds up few pipelines of others.
// The ranges of a server that does not answer are lost, and those of others are
// not.
type cluster struct {
	one     // of the ranges
	store   *Store
	ranges  [ranges]slotRange
	outage  *faults.Outage
	ctx     context.Context
	stop    context.CancelFunc
	looking sync.WaitGroup
}

// A slotRange is a part of the slots.
type slotRange struct {
	probe string // a key in one of the slots
	// trying: it is looked at.
	trying atomic.Bool
}

func (a *address) newCluster(s *Store, l *link) *cluster {
	c := &cluster{store: s}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.outage = faults.NewOutage(a.Logger, "part of the cluster down; limits of its keys follow on_store_error", "cluster recovered")
	for n, missing := 0, len(c.ranges); missing > 0; n++ {
		t := "probe" + strconv.Itoa(n)
		if r := &c.ranges[rangeOf(slotOf(t))]; r.probe == "" {
			r.probe = a.Prefix + ":{" + t + "}:probe"
			missing--
		}
	}
	for i := range c.ranges {
		c.shards = append(c.shards, &pipeline{i, s, l})
	}
	return c
}

// ranges is how many ranges of slots a cluster has.
const ranges = 32

func rangeOf(slot int) int { return slot * ranges / slots }

func (c *cluster) routeTag(tag string) route {
	slot := slotOf(tag)
	return route{pipeline: c.shards[rangeOf(slot)], slot: slot}
}

func (c *cluster) breakerClosed(int) {
	if c.store.countLostShards() == 0 {
		c.outage.Succeeded()
	}
}

// breakerOpened looks at all ranges, as one is lost because of err: others may be too, of
// which nobody asks. Where no server was ever reached all are.
func (c *cluster) breakerOpened(_ int, err error) {
	if c.ctx.Err() != nil || !c.shards[0].hasClient() {
		return
	}
	c.outage.Failed(err)
	for i := range c.ranges {
		if r := &c.ranges[i]; !c.shards[i].isLost() && !r.trying.Swap(true) {
			c.looking.Go(func() {
				defer r.trying.Store(false)
				ctx, cancel := context.WithTimeout(c.ctx, c.store.opt.callTimeout())
				defer cancel()
				if err := c.probeShard(ctx, i); err != nil && c.ctx.Err() == nil {
					c.store.bound.Load().TripBreaker(i, err)
				}
			})
		}
	}
}

// probeShard asks the server of a range for a key that there is not.
func (c *cluster) probeShard(ctx context.Context, shard int) error {
	n := c.shards[shard]
	if !n.hasClient() {
		return n.missing
	}
	var err error
	n.useClient(func(client rueidis.Client) {
		err = client.Do(ctx, client.B().Get().Key(c.ranges[shard].probe).Build()).Error()
	})
	if n.heedError(err); !isLoss(err) {
		return nil
	}
	return err
}

func (c *cluster) close() {
	c.stop()
	c.shards[0].close() // all have one link
	c.looking.Wait()
}
