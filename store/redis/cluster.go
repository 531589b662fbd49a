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
	ranges  [32]slotRange
	parts   parts
	outage  *faults.Outage
	client  rueidis.Client
	ctx     context.Context
	stop    context.CancelFunc
	looking sync.WaitGroup
	patient Options
}

// A slotRange is a part of the slots.
type slotRange struct {
	pipeline *pipeline
	probe    string // a key in one of the slots
	// trying: it is looked at.
	trying atomic.Bool
}

func (a *address) newCluster(client rueidis.Client, stats *counters) *cluster {
	c := &cluster{client: client, patient: a.Options}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.outage = faults.NewOutage(a.Logger, "part of the cluster down; limits of its keys follow on_store_error", "cluster recovered")
	for n, missing := 0, len(c.ranges); missing > 0; n++ {
		t := "probe" + strconv.Itoa(n)
		if r := c.rangeOf(slotOf(t)); r.probe == "" {
			r.probe = a.Prefix + ":{" + t + "}:probe"
			missing--
		}
	}
	for i := range c.ranges {
		r := &c.ranges[i]
		r.pipeline = newPipeline(client, a.Options, stats, pipelineOptions{
			workers: rangeWorkers, room: max(a.InFlight/len(c.ranges), 64), slots: true, of: &c.parts,
			probe: func(ctx context.Context) error { return c.try(ctx, r) }, opened: c.lookAround,
			closed: func() {
				if c.parts.lost() == 0 {
					c.outage.Succeeded()
				}
			},
		})
	}
	return c
}

func (c *cluster) rangeOf(slot int) *slotRange { return &c.ranges[slot*len(c.ranges)/slots] }

func (c *cluster) place(tag string) place {
	slot := slotOf(tag)
	return place{pipeline: c.rangeOf(slot).pipeline, slot: slot}
}

// lookAround looks at all ranges, as one is lost because of err: others may be too, of
// which nobody asks.
func (c *cluster) lookAround(err error) {
	if c.ctx.Err() != nil {
		return
	}
	c.outage.Failed(err)
	for i := range c.ranges {
		if r := &c.ranges[i]; !r.pipeline.isLost() && !r.trying.Swap(true) {
			c.looking.Go(func() {
				defer r.trying.Store(false)
				ctx, cancel := context.WithTimeout(c.ctx, c.patient.patience())
				defer cancel()
				if err := c.try(ctx, r); err != nil && c.ctx.Err() == nil {
					r.pipeline.queue.Trip(0, err)
				}
			})
		}
	}
}

// try asks the server of a range for a key that there is not.
func (c *cluster) try(ctx context.Context, r *slotRange) error {
	if err := c.client.Do(ctx, c.client.B().Get().Key(r.probe).Build()).Error(); isLoss(err) {
		return err
	}
	return nil
}

func (c *cluster) close() {
	c.stop()
	c.client.Close()
	c.looking.Wait()
	for i := range c.ranges {
		c.ranges[i].pipeline.close()
	}
}
