package counter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/redact"
)

const (
	// workers send to one server. While one waits for replies, calls gather for
	// the next.
	workers = 2
	// queued is how many calls may wait for a worker; more wait for room, within
	// their time. What workers have sent is far less than a connection of the
	// client library holds: that one blocks when it is full, however little time
	// there is.
	queued = 1024
	// batchSize is how many calls a worker sends at once.
	batchSize = 256
)

// redisClient is a server.
type redisClient struct {
	client  rueidis.Client
	conns   *connections
	timeout time.Duration
	queue   chan *job
	stop    chan struct{}
	stopped sync.Once
	working sync.WaitGroup
	jobs    sync.Pool
	timers  sync.Pool
}

// job is the commands of one call and their replies.
type job struct {
	cmds   rueidis.Commands
	uses   []use
	counts []int64
	errs   []error
	state  atomic.Int32
	done   chan struct{}
}

// The states of a job: a worker takes it, or the caller gives it up, whichever is
// first.
const (
	waiting = iota
	taken
	abandoned
)

// use is what a command does for a hit.
type use struct {
	hit  int
	verb string
}

func (j *job) addCommand(cmd rueidis.Completed, u use) {
	j.cmds, j.uses = append(j.cmds, cmd), append(j.uses, u)
}

// openRedis connects to a server.
func openRedis(ctx context.Context, s RedisServer) (*redisClient, error) {
	o, conns, err := s.option()
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis %s: %w", redact.URL(s.URL), err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	pong, err := client.Do(ctx, client.B().Ping().Build()).ToString()
	if err == nil && pong != "PONG" {
		err = fmt.Errorf("unexpected PING response: %q", pong)
	}
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("redis %s: %w", redact.URL(s.URL), err)
	}
	c := &redisClient{client: client, conns: conns, timeout: s.timeout(), queue: make(chan *job, queued), stop: make(chan struct{})}
	c.jobs.New = func() any { return &job{done: make(chan struct{}, 1)} }
	c.timers.New = func() any { return time.NewTimer(time.Hour) }
	for range workers {
		c.working.Go(c.sendQueued)
	}
	return c, nil
}

func (c *redisClient) close() {
	c.stopped.Do(func() {
		close(c.stop)
		c.client.Close()
	})
	c.working.Wait()
}

// acquireJob returns an empty job.
func (c *redisClient) acquireJob() *job {
	j := c.jobs.Get().(*job)
	j.cmds, j.uses, j.counts, j.errs = j.cmds[:0], j.uses[:0], j.counts[:0], j.errs[:0]
	j.state.Store(waiting)
	return j
}

// completeJob sends a job's commands and puts the numbers of the replies into the hits.
func (c *redisClient) completeJob(ctx context.Context, j *job, hits []Hit) error {
	timer := c.timers.Get().(*time.Timer)
	timer.Reset(c.timeout)
	defer c.timers.Put(timer)
	select {
	case c.queue <- j:
	case <-timer.C:
		return c.timeoutError()
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stop:
		return ErrClosed
	}
	select {
	case <-j.done:
	case <-timer.C:
		// A worker that has it may write to it yet: it is not used again.
		j.state.CompareAndSwap(waiting, abandoned)
		return c.timeoutError()
	case <-ctx.Done():
		j.state.CompareAndSwap(waiting, abandoned)
		return ctx.Err()
	case <-c.stop:
		return ErrClosed
	}
	defer c.jobs.Put(j)
	for i, u := range j.uses {
		h, err := &hits[u.hit], j.errs[i]
		switch {
		case err == nil && u.verb != "EXPIRE":
			h.Count = uint64(max(j.counts[i], 0))
		case err != nil:
			if pong, ok := rueidis.IsRedisErr(err); ok {
				return replyError(h.command(u.verb), pong.Error())
			}
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
				return c.timeoutError() // the connection's time was up first
			}
			return err
		}
	}
	return nil
}

func (c *redisClient) timeoutError() error {
	return fmt.Errorf("%w: nothing within %s", ErrTimeout, c.timeout)
}

// sendQueued sends the jobs that wait, again and again.
func (c *redisClient) sendQueued() {
	var jobs []*job
	var cmds rueidis.Commands
	for {
		select {
		case <-c.stop:
			return
		case j := <-c.queue:
			jobs = append(jobs[:0], j)
		}
	more:
		for len(jobs) < batchSize {
			select {
			case j := <-c.queue:
				jobs = append(jobs, j)
			default:
				break more
			}
		}
		c.sendJobs(jobs, &cmds)
		clear(jobs)
	}
}

// sendJobs sends jobs in one pipeline. That has no end in time of its own: a
// connection whose server is silent is closed by the client library.
func (c *redisClient) sendJobs(jobs []*job, cmds *rueidis.Commands) {
	all := (*cmds)[:0]
	for i, j := range jobs {
		if !j.state.CompareAndSwap(waiting, taken) {
			jobs[i] = nil
			continue
		}
		all = append(all, j.cmds...)
	}
	*cmds = all
	if len(all) == 0 {
		return
	}
	replies := c.client.DoMulti(context.Background(), all...)
	clear(all)
	for _, j := range jobs {
		if j == nil {
			continue
		}
		for range j.uses {
			n, err := replies[0].AsInt64()
			if rueidis.IsRedisNil(err) {
				err = nil
			}
			j.counts, j.errs = append(j.counts, n), append(j.errs, err)
			replies = replies[1:]
		}
		j.done <- struct{}{}
	}
}

// ErrTimeout is the answer when a server took too long.
var ErrTimeout = errors.New("redis did not answer in time")

// replyError is what the client library of envoyproxy/ratelimit says of an error
// that Redis replied to a command of a pipeline.
func replyError(command []string, reply string) error {
	// The library here leaves the plainest of codes out.
	if code, _, _ := strings.Cut(reply, " "); code != strings.ToUpper(code) {
		reply = "ERR " + reply
	}
	return fmt.Errorf("command %+q in pipeline returned error: %s", command, reply)
}

// command returns what a hit was counted by, about.
func (h *Hit) command(verb string) []string {
	c := []string{verb, string(h.Key)}
	if verb == "INCRBY" {
		c = append(c, strconv.FormatUint(h.Hits, 10))
	}
	return c
}
