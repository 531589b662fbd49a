package counter

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// RedisOptions configures a Redis.
type RedisOptions struct {
	// Server keeps the counters.
	Server RedisServer
	// PerSecond keeps those of limits per second. Zero means that Server does.
	PerSecond *RedisServer
	// JitterSeconds is how many seconds more a counter may be kept than its window
	// is long: 0 to one less than that, at random. Zero means none.
	JitterSeconds int64
}

// Redis keeps counters under the names that envoyproxy/ratelimit gives them, and
// by the same commands, so that both can share a server: INCRBY and EXPIRE in one
// pipeline. Safe for concurrent use.
type Redis struct {
	main, perSecond *redisClient
	jitter          int64
}

// OpenRedis connects, and asks each server whether it is there.
func OpenRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	r := &Redis{jitter: o.JitterSeconds}
	var err error
	if r.main, err = openRedis(ctx, o.Server); err != nil {
		return nil, err
	}
	if o.PerSecond != nil {
		if r.perSecond, err = openRedis(ctx, *o.PerSecond); err != nil {
			r.main.close()
			return nil, err
		}
	}
	return r, nil
}

// maxExpiry is what counters of very long windows are kept for, in seconds.
const maxExpiry = math.MaxInt32

// refundScript takes hits off a counter that is there, down to 0.
const refundScript = `
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count <= 0 then return 0 end
if count < tonumber(ARGV[1]) then redis.call('DECRBY', KEYS[1], redis.call('GET', KEYS[1])) return 0 end
return redis.call('DECRBY', KEYS[1], ARGV[1])`

// Add implements Store.
func (r *Redis) Add(ctx context.Context, _ int64, hits []Hit) error {
	return r.eachServer(hits, func(c *redisClient, perSecond bool) error {
		j := c.acquireJob()
		for i := range hits {
			h := &hits[i]
			if h.PerSecond != perSecond {
				continue
			}
			key, b := string(h.Key), c.client.B()
			if h.Back {
				j.addCommand(b.Eval().Script(refundScript).Numkeys(1).Key(key).Arg(strconv.FormatUint(h.Hits, 10)).Build(), use{i, "EVAL"})
				continue
			}
			j.addCommand(b.Incrby().Key(key).Increment(int64(h.Hits)).Build(), use{i, "INCRBY"})
			j.addCommand(b.Expire().Key(key).Seconds(r.expiry(h)).Build(), use{i, "EXPIRE"})
		}
		return c.completeJob(ctx, j, hits)
	})
}

// Look implements Looker.
func (r *Redis) Look(ctx context.Context, _ int64, hits []Hit) error {
	return r.eachServer(hits, func(c *redisClient, perSecond bool) error {
		j := c.acquireJob()
		for i := range hits {
			if h := &hits[i]; h.PerSecond == perSecond {
				j.addCommand(c.client.B().Get().Key(string(h.Key)).Build(), use{i, "GET"})
			}
		}
		return c.completeJob(ctx, j, hits)
	})
}

// eachServer calls do for each server that is to be asked.
func (r *Redis) eachServer(hits []Hit, do func(c *redisClient, perSecond bool) error) error {
	if r.perSecond == nil {
		for i := range hits {
			hits[i].PerSecond = false
		}
		return do(r.main, false)
	}
	for i, c := range []*redisClient{r.main, r.perSecond} {
		perSecond := i == 1
		if slices.ContainsFunc(hits, func(h Hit) bool { return h.PerSecond == perSecond }) {
			if err := do(c, perSecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// expiry returns the seconds after which a counter may go.
func (r *Redis) expiry(h *Hit) int64 {
	seconds := min(h.Period, maxExpiry)
	if r.jitter > 0 {
		seconds += rand.Int64N(r.jitter)
	}
	return seconds
}

// Close implements Store. Calls under way fail.
func (r *Redis) Close() error {
	r.main.close()
	if r.perSecond != nil {
		r.perSecond.close()
	}
	return nil
}

// RedisStats is what became of the connections to a server.
type RedisStats struct{ Active, Total, Closed uint64 }

// Stats returns what became of the connections, perSecond those to the server of
// limits per second.
func (r *Redis) Stats() (main, perSecond RedisStats) {
	main = r.main.conns.stats()
	if r.perSecond != nil {
		perSecond = r.perSecond.conns.stats()
	}
	return main, perSecond
}
