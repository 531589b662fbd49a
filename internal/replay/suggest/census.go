package suggest

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/sketch"
)

// ErrKeys is returned when there are more clients than there is room for.
var ErrKeys = errors.New("suggest: more clients than there is room for: count by less, or raise the bound")

// busiest is how many clients are known by name.
const busiest = 1000

// Census counts what clients ask for in windows of one length. Not safe for
// concurrent use.
type Census struct {
	period  int64 // µs
	maxKeys int
	seed    maphash.Seed
	clients map[uint64]*client
	// windows counts the windows of clients by how much was asked for in them.
	windows map[int64]int64
	// most follows who asked for most in all.
	most     *sketch.SpaceSaving[string]
	requests int64
}

// client is the window that a client is in, and its busiest.
type client struct{ window, count, peak int64 }

// NewCensus returns an empty census of at most maxKeys clients, of which each
// takes about 64 bytes.
func NewCensus(period time.Duration, maxKeys int) (*Census, error) {
	if period < time.Millisecond || maxKeys < 1 {
		return nil, fmt.Errorf("suggest: %d clients in windows of %s: give at least one, and a millisecond", maxKeys, period)
	}
	most, err := sketch.NewSpaceSaving[string](busiest)
	if err != nil {
		return nil, err
	}
	return &Census{period: period.Microseconds(), maxKeys: maxKeys, seed: maphash.MakeSeed(),
		clients: make(map[uint64]*client), windows: make(map[int64]int64), most: most}, nil
}

// Add counts a request of a client at a time, in microseconds since the Unix
// epoch. A time before the client's last counts in the window of that.
func (c *Census) Add(key string, now int64) error {
	h := maphash.String(c.seed, key)
	who := c.clients[h]
	if who == nil {
		if len(c.clients) >= c.maxKeys {
			return ErrKeys
		}
		who = &client{window: now / c.period}
		c.clients[h] = who
	}
	if w := now / c.period; w > who.window {
		c.windows[who.count]++
		who.window, who.count = w, 0
	}
	who.count++
	who.peak = max(who.peak, who.count)
	c.requests++
	c.most.Add(strings.Clone(key), 1) // the summary keeps it
	return nil
}
