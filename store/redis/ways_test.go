package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A way is how a sliding log can be kept in Redis. take reports whether a request
// was admitted and how many times it had to begin anew.
type way struct {
	name string
	take func(ctx context.Context, member string) (admitted bool, again int, err error)
}

// What docs/decisions/0010-log-as-a-list.md says of transactions, locks and
// scripts: 16 clients want 200 of 100 units at once.
func TestWaysToKeepALog(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const count, clients, tries = 100, 16, 13
	l := perHour(t, count, algorithm.SlidingLog)
	sets := sortedSets{c, count, l.Period.Microseconds()}
	for _, w := range []way{
		{"pipeline", sets.pipeline},
		{"transaction", sets.transaction},
		{"lock", sets.lock},
		{"set script", sets.script},
		{"script", func(ctx context.Context, _ string) (bool, int, error) {
			d, err := s.TakeOne(ctx, "k", l, 1)
			return d.Allowed(), 0, err
		}},
	} {
		var passed, again atomic.Int64
		scripts := strings.HasSuffix(w.name, "script")
		calls := commands(t, r, scripts)
		from := time.Now()
		each(clients, func(client int) {
			for i := range tries {
				ok, n, err := w.take(t.Context(), fmt.Sprint(client, ":", i))
				if err != nil {
					t.Errorf("%s: %v", w.name, err)
				}
				again.Add(int64(n))
				if ok {
					passed.Add(1)
				}
			}
		})
		took := time.Since(from)
		each := float64(commands(t, r, scripts)-calls) / (clients * tries)
		t.Logf("%-11s admitted %d of %d, %.1f commands and %.2f attempts a decision, %v", w.name, passed.Load(), count, each,
			1+float64(again.Load())/(clients*tries), took.Round(time.Millisecond))
		// That the pipeline loses is for TestReadThenWriteLoses to show, with more clients.
		if got := passed.Load(); got < count || got > count && w.name != "pipeline" {
			t.Errorf("%s admitted %d of %d", w.name, passed.Load(), count)
		}
	}
}

// commands returns how many commands clients have sent: those that scripts call
// are not among them. scripts: clients send scripts only.
func commands(t *testing.T, r *servertest.RedisServer, scripts bool) int64 {
	t.Helper()
	var n int64
	for line := range strings.Lines(fmt.Sprint(r.Do(t, "INFO", "commandstats"))) {
		name, rest, _ := strings.Cut(line, ":calls=")
		calls, _, _ := strings.Cut(rest, ",")
		k, err := strconv.ParseInt(calls, 10, 64)
		if err != nil || strings.HasPrefix(name, "cmdstat_info") || strings.HasPrefix(name, "cmdstat_hello") || strings.HasPrefix(name, "cmdstat_client") {
			continue
		}
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "time", "llen", "lindex", "rpush", "rpop", "ltrim", "pexpireat":
			// Only our script calls these.
		case "eval", "evalsha":
			n += k
		default:
			if !scripts {
				n += k
			}
		}
	}
	return n
}

// sortedSets keep logs as the textbooks do: a member of a sorted set for each
// request, scored by its time.
type sortedSets struct {
	rueidis.Client
	count, period int64
}

// pipeline counts and adds in one round trip, and looks at the count afterwards:
// another client may have counted the same.
func (s sortedSets) pipeline(ctx context.Context, member string) (bool, int, error) {
	now := time.Now().UnixMicro()
	res := s.DoMulti(ctx,
		s.B().Zremrangebyscore().Key("pipeline").Min("-inf").Max(fmt.Sprint(now-s.period)).Build(),
		s.B().Zcard().Key("pipeline").Build())
	used, err := res[1].AsInt64()
	if err != nil || used >= s.count {
		return false, 0, err
	}
	return true, 0, s.Do(ctx, s.B().Zadd().Key("pipeline").ScoreMember().ScoreMember(float64(now), member).Build()).Error()
}

// transaction is WATCH, look, MULTI, add, EXEC: begun anew whenever another client
// was faster.
func (s sortedSets) transaction(ctx context.Context, member string) (admitted bool, again int, err error) {
	for ; ; again++ {
		done := false
		err = s.Dedicated(func(c rueidis.DedicatedClient) error {
			now := time.Now().UnixMicro()
			used, err := c.DoMulti(ctx, c.B().Watch().Key("transaction").Build(), c.B().Zcard().Key("transaction").Build())[1].AsInt64()
			if err != nil {
				return err
			}
			if used >= s.count {
				done = true
				return c.Do(ctx, c.B().Unwatch().Build()).Error()
			}
			res := c.DoMulti(ctx, c.B().Multi().Build(),
				c.B().Zremrangebyscore().Key("transaction").Min("-inf").Max(fmt.Sprint(now-s.period)).Build(),
				c.B().Zadd().Key("transaction").ScoreMember().ScoreMember(float64(now), member).Build(),
				c.B().Exec().Build())
			switch _, err := res[3].ToArray(); {
			case err == nil:
				admitted, done = true, true
			case !rueidis.IsRedisNil(err):
				return err
			}
			return nil
		})
		if err != nil || done {
			return admitted, again, err
		}
	}
}

// script is the textbooks' three steps in a script of the server.
func (s sortedSets) script(ctx context.Context, member string) (bool, int, error) {
	n, err := s.Do(ctx, s.B().Eval().Script(sortedSetLog).Numkeys(1).Key("scripted").
		Arg(fmt.Sprint(time.Now().UnixMicro()), fmt.Sprint(s.period), fmt.Sprint(s.count), member).Build()).AsInt64()
	return n == 1, 0, err
}

// lock takes a lock that expires, looks, adds, and gives the lock back: a holder
// that is slower than its lock shares it without knowing.
func (s sortedSets) lock(ctx context.Context, member string) (admitted bool, again int, err error) {
	for ; ; again++ {
		err := s.Do(ctx, s.B().Set().Key("lock").Value(member).Nx().PxMilliseconds(1000).Build()).Error()
		if err == nil {
			break
		}
		if !rueidis.IsRedisNil(err) {
			return false, again, err
		}
	}
	now := time.Now().UnixMicro()
	used, err := s.DoMulti(ctx,
		s.B().Zremrangebyscore().Key("locked").Min("-inf").Max(fmt.Sprint(now-s.period)).Build(),
		s.B().Zcard().Key("locked").Build())[1].AsInt64()
	if err == nil && used < s.count {
		admitted = true
		err = s.Do(ctx, s.B().Zadd().Key("locked").ScoreMember().ScoreMember(float64(now), member).Build()).Error()
	}
	return admitted, again, errors.Join(err, s.Do(ctx, s.B().Del().Key("lock").Build()).Error())
}
