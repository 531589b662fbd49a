package redis

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/faults"
)

// cluster is a Redis Cluster. Each lane has a range of slots: as the servers of a
// cluster have ranges too, one that does not answer holds up few lanes of others.
// The ranges of a server that does not answer are lost, and those of others are
// not.
type cluster struct {
	ranges  [32]slotRange
	parts   parts
	outage  *faults.Outage
	client  rueidis.Client
	timeout time.Duration
	// wake asks for a look at all ranges.
	wake    chan struct{}
	stop    context.CancelFunc
	stopped sync.WaitGroup
}

// A slotRange is a part of the slots.
type slotRange struct {
	lane *lane
	part
	probe string // a key in one of the slots
	// trying: a probe is under way.
	trying atomic.Bool
}

func (a *address) newCluster(client rueidis.Client, stats *counters) *cluster {
	ctx, stop := context.WithCancel(context.Background())
	c := &cluster{client: client, timeout: a.patience(), wake: make(chan struct{}, 1), stop: stop}
	c.outage = faults.NewOutage(a.Logger, "part of the cluster down; limits of its keys follow on_store_error", "cluster recovered")
	c.parts.count = int64(len(c.ranges))
	for i := range c.ranges {
		r := &c.ranges[i]
		r.lane = newLane(client, rangeWorkers, max(a.InFlight/len(c.ranges), 64), true, a.Options, stats)
		r.part.of, r.part.lost = &c.parts, c.miss
	}
	for n, missing := 0, len(c.ranges); missing > 0; n++ {
		t := "probe" + strconv.Itoa(n)
		if r := c.rangeOf(slotOf(t)); r.probe == "" {
			r.probe = a.Prefix + ":{" + t + "}:probe"
			missing--
		}
	}
	c.stopped.Go(func() { c.watch(ctx) })
	return c
}

func (c *cluster) rangeOf(slot int) *slotRange { return &c.ranges[slot*len(c.ranges)/slots] }

func (c *cluster) place(tag string) place {
	slot := slotOf(tag)
	r := c.rangeOf(slot)
	return place{lane: r.lane, part: &r.part, slot: slot}
}

// miss notes that a range is lost: others may be too, of which nobody asks.
func (c *cluster) miss(err error) {
	c.outage.Failed(err)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// watch tries the lost ranges until ctx ends, and all when one is lost.
func (c *cluster) watch(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			all = true
		case <-tick.C:
		}
		for i := range c.ranges {
			if r := &c.ranges[i]; (all || r.isLost()) && !r.trying.Swap(true) {
				c.stopped.Go(func() {
					defer r.trying.Store(false)
					c.try(ctx, r)
				})
			}
		}
	}
}

// try asks the server of a range for a key that there is not.
func (c *cluster) try(ctx context.Context, r *slotRange) {
	asking, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.client.Do(asking, c.client.B().Get().Key(r.probe).Build()).Error()
	switch {
	case ctx.Err() != nil:
	case isLoss(err):
		r.lose()
	case r.found() && c.parts.away.Load() == 0:
		c.outage.Answered()
	}
}

func (c *cluster) close() {
	c.stop()
	c.client.Close()
	c.stopped.Wait()
	for i := range c.ranges {
		c.ranges[i].lane.close()
	}
}
