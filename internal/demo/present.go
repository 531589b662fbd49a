package demo

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

// playOverNetwork lets the clients act over the network, each by itself, until ctx ends or one
// fails. behind is by how much it is later than they know.
func (c *crowd) playOverNetwork(ctx context.Context, url string, behind time.Duration) error {
	network := &http.Transport{MaxIdleConnsPerHost: 8}
	defer network.CloseIdleConnections()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	ended := make(chan error, len(c.clients))
	for _, one := range c.clients {
		all.Go(func() { ended <- one.sendRequests(ctx, network, url, behind) })
	}
	first := <-ended
	stop()
	all.Wait()
	return first
}

// mostBehind is how late a client may be before it goes on from there: after a machine
// slept, nobody hurries.
const mostBehind = 250 * time.Millisecond

// sendRequests sends a client's requests when it is time for each, until ctx ends.
func (c *client) sendRequests(ctx context.Context, network http.RoundTripper, url string, behind time.Duration) error {
	for {
		wait := time.Until(c.at.Add(behind))
		if wait < -mostBehind {
			behind -= wait
		}
		if !backoff.Sleep(ctx, wait) {
			return ctx.Err()
		}
		if err := c.sendRequest(ctx, network, url); err != nil {
			return err
		}
	}
}
