package counter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
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
			r.main.client.Close()
			return nil, err
		}
	}
	return r, nil
}

// maxExpiry is what counters of very long windows are kept for, in seconds.
const maxExpiry = math.MaxInt32

// giveBack takes hits off a counter that is there, down to 0.
const giveBack = `
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count <= 0 then return 0 end
if count < tonumber(ARGV[1]) then redis.call('DECRBY', KEYS[1], redis.call('GET', KEYS[1])) return 0 end
return redis.call('DECRBY', KEYS[1], ARGV[1])`

// Add implements Store.
func (r *Redis) Add(ctx context.Context, _ int64, hits []Hit) error {
	return r.each(hits, func(c *redisClient, perSecond bool) error {
		cmds, of := make(rueidis.Commands, 0, 2*len(hits)), make([]use, 0, 2*len(hits))
		for i := range hits {
			h := &hits[i]
			if h.PerSecond != perSecond {
				continue
			}
			key, b := string(h.Key), c.client.B()
			if h.Back {
				cmds = append(cmds, b.Eval().Script(giveBack).Numkeys(1).Key(key).Arg(strconv.FormatUint(h.Hits, 10)).Build())
				of = append(of, use{h, "EVAL"})
				continue
			}
			cmds = append(cmds, b.Incrby().Key(key).Increment(int64(h.Hits)).Build(), b.Expire().Key(key).Seconds(r.expiry(h)).Build())
			of = append(of, use{h, "INCRBY"}, use{h, "EXPIRE"})
		}
		return c.do(ctx, cmds, of)
	})
}

// Look implements Looker.
func (r *Redis) Look(ctx context.Context, _ int64, hits []Hit) error {
	return r.each(hits, func(c *redisClient, perSecond bool) error {
		cmds, of := make(rueidis.Commands, 0, len(hits)), make([]use, 0, len(hits))
		for i := range hits {
			if h := &hits[i]; h.PerSecond == perSecond {
				cmds, of = append(cmds, c.client.B().Get().Key(string(h.Key)).Build()), append(of, use{h, "GET"})
			}
		}
		return c.do(ctx, cmds, of)
	})
}

// each calls do for each server that is to be asked.
func (r *Redis) each(hits []Hit, do func(c *redisClient, perSecond bool) error) error {
	if r.perSecond == nil {
		for i := range hits {
			hits[i].PerSecond = false
		}
		return do(r.main, false)
	}
	var some [2]bool
	for i := range hits {
		some[b2i(hits[i].PerSecond)] = true
	}
	if some[0] {
		if err := do(r.main, false); err != nil {
			return err
		}
	}
	if some[1] {
		return do(r.perSecond, true)
	}
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// expiry returns the seconds after which a counter may go.
func (r *Redis) expiry(h *Hit) int64 {
	seconds := min(h.Period, maxExpiry)
	if r.jitter > 0 {
		seconds += rand.Int64N(r.jitter)
	}
	return seconds
}

// Close implements Store.
func (r *Redis) Close() error {
	r.main.client.Close()
	if r.perSecond != nil {
		r.perSecond.client.Close()
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

// inFlight bounds the calls that wait for one server. It is less than what the
// queue of a connection holds: the client library blocks when that is full,
// however little time there is.
const inFlight = 1000

// redisClient is a server.
type redisClient struct {
	client  rueidis.Client
	conns   *connections
	timeout time.Duration
	room    chan struct{}
}

// ErrTimeout is the answer when a server took too long.
var ErrTimeout = errors.New("redis: no answer in time")

// use is what a command does for a hit.
type use struct {
	hit  *Hit
	verb string
}

// command returns the command, about: the client library has taken it apart.
func (u use) command() []string {
	c := []string{u.verb, string(u.hit.Key)}
	if u.verb == "INCRBY" {
		c = append(c, strconv.FormatUint(u.hit.Hits, 10))
	}
	return c
}

// do sends commands and puts the numbers of the replies into their hits.
func (c *redisClient) do(ctx context.Context, cmds rueidis.Commands, of []use) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("%w: REDIS_TIMEOUT is %s", ErrTimeout, c.timeout))
	defer cancel()
	select {
	case c.room <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	replies := c.client.DoMulti(ctx, cmds...)
	<-c.room
	for i := range replies {
		n, err := replies[i].AsInt64()
		switch {
		case err == nil && of[i].verb != "EXPIRE":
			of[i].hit.Count = uint64(max(n, 0))
		case err != nil && !rueidis.IsRedisNil(err):
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if said, ok := rueidis.IsRedisErr(err); ok {
				return replyError(of[i].command(), said.Error())
			}
			return err
		}
	}
	return nil
}

// replyError is what the client library of envoyproxy/ratelimit says of an error
// that Redis replied to a command of a pipeline.
func replyError(command []string, reply string) error {
	// The library here leaves the plainest of codes out.
	if code, _, _ := strings.Cut(reply, " "); code != strings.ToUpper(code) {
		reply = "ERR " + reply
	}
	return fmt.Errorf("command %+q in pipeline returned error: %s", command, reply)
}

// openRedis connects to a server.
func openRedis(ctx context.Context, s RedisServer) (*redisClient, error) {
	o, conns, err := s.option()
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis %s: %w", s.masked(), err)
	}
	c := &redisClient{client: client, conns: conns, timeout: s.timeout(), room: make(chan struct{}, inFlight)}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	said, err := client.Do(ctx, client.B().Ping().Build()).ToString()
	if err == nil && said != "PONG" {
		err = fmt.Errorf("unexpected PING response: %q", said)
	}
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("redis %s: %w", s.masked(), err)
	}
	return c, nil
}
