package demo

import (
	"fmt"
	"math"
	"time"
)

// getting asks for one of some paths.
func getting(paths ...string) func(*client) (method, path string) {
	return func(c *client) (string, string) { return "GET", c.chooseOne(paths) }
}

// posting posts to one path.
func posting(path string) func(*client) (string, string) {
	return func(*client) (string, string) { return "POST", path }
}

// taking asks for one product after the other.
func taking() func(*client) (string, string) {
	next := 0
	return func(*client) (string, string) {
		next++
		return "GET", fmt.Sprintf("/products/%d", 1+next%4000)
	}
}

// reading acts as a person with a browser does: a page with up to so many parts, and then
// a look at it. A person who is refused leaves for a while.
func reading(parts int, look time.Duration) func(*client, response) time.Duration {
	return func(c *client, got response) time.Duration {
		switch {
		case got.refused:
			c.left = 0
			return c.between(8*time.Second, 40*time.Second)
		case c.left > 0:
			c.left--
			return c.between(shortest, 4*shortest)
		}
		c.left = c.rng.IntN(parts + 1)
		return c.between(look/3, 2*look)
	}
}

// visiting is reading for a while, and again an hour after it came.
func visiting(first time.Time, stay time.Duration, parts int, look time.Duration) func(*client, response) time.Duration {
	read := reading(parts, look)
	return func(c *client, got response) time.Duration {
		after := read(c, got)
		since := c.at.Add(after).Sub(first)
		if into := since % visitEvery; into > stay {
			return after + visitEvery - into
		}
		return after
	}
}

// visitEvery is how often those come who come for a while.
const visitEvery = time.Hour

// pacing sends once every so long, a little more or less, and waits as long as it is told
// to when it is refused.
func pacing(every time.Duration) func(*client, response) time.Duration {
	return func(c *client, got response) time.Duration {
		return max(got.retryAfter, c.between(every*3/4, every*5/4))
	}
}

// pausing has a pause of more than a minute that ends at an instant.
func pausing(until time.Time, wait func(*client, response) time.Duration) func(*client, response) time.Duration {
	return func(c *client, got response) time.Duration {
		after := wait(c, got)
		if next := c.at.Add(after); next.Before(until) && next.After(until.Add(-pause)) {
			return until.Sub(c.at) + c.between(0, time.Second)
		}
		return after
	}
}

const pause = 61 * time.Second

// ignoring sends once every so long, a little more often and less often as time goes by,
// whatever the response is.
func ignoring(every time.Duration) func(*client, response) time.Duration {
	return func(c *client, _ response) time.Duration {
		slow := 1 + 0.02*math.Sin(c.at.Sub(time.Unix(0, 0)).Minutes())
		return time.Duration(slow * float64(c.between(every*9/10, every*11/10)))
	}
}
