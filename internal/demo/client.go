package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// client is one made-up sender of requests. Not safe for concurrent use.
type client struct {
	// address is where it comes from, agent its software, user who is signed in; empty
	// means nobody.
	address, agent, user string
	rng                  *rand.Rand
	// at is when it sends next.
	at time.Time
	// ask chooses what it asks for.
	ask func(*client) (method, path string)
	// wait returns how long it waits after a response before it sends again.
	wait func(*client, response) time.Duration
	// left is how many requests of a page are still to come.
	left int
}

// response is what a client learns from a response.
type response struct {
	refused bool
	// retryAfter is zero where nothing was said.
	retryAfter time.Duration
}

// sendRequest sends the client's next request and says when the one after it comes.
func (c *client) sendRequest(ctx context.Context, to http.RoundTripper, url string) error {
	method, path := c.ask(c)
	r, err := http.NewRequestWithContext(ctx, method, url+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("X-Forwarded-For", c.address)
	r.Header.Set("User-Agent", c.agent)
	if c.user != "" {
		r.Header.Set("X-User", c.user)
	}
	res, err := to.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("a request of %s: %w", c.address, err)
	}
	defer res.Body.Close()
	// A connection is used again once the body was read.
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, maxBody)); err != nil {
		return fmt.Errorf("a response to %s: %w", c.address, err)
	}
	got := response{refused: res.StatusCode == http.StatusTooManyRequests}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		got.retryAfter = time.Duration(seconds) * time.Second
	}
	c.at = c.at.Add(max(c.wait(c, got), shortest))
	return nil
}

const (
	// maxBody bounds what is read of a response.
	maxBody = 64 << 10
	// shortest is the least time between two requests of one client.
	shortest = 50 * time.Millisecond
)

// between draws a duration.
func (c *client) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rng.Int64N(int64(most-least)+1))
}

// chooseOne chooses one of several values.
func (c *client) chooseOne(of []string) string { return of[c.rng.IntN(len(of))] }
