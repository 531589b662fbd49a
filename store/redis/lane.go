package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
)

// What becomes of a call.
const (
	waiting uint32 = iota // in the queue: nobody knows of it
	sent                  // it may be applied at any time
	settled               // its answer is there
	left                  // its caller waits no longer
)

// A call is one script to run. Its caller and the worker that runs it hand it to
// each other by its state: whoever comes last recycles it.
type call struct {
	script *script
	keys   []string
	args   []string

	reply []int64
	err   error

	state atomic.Uint32
	done  chan struct{}
	timer *time.Timer
}

var calls = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &call{done: make(chan struct{}, 1), timer: t}
}}

func newCall(s *script) *call {
	c := calls.Get().(*call)
	c.script, c.keys, c.args, c.reply, c.err = s, c.keys[:0], c.args[:0], c.reply[:0], nil
	c.state.Store(waiting)
	return c
}

func (c *call) recycle() {
	clear(c.keys)
	clear(c.args)
	calls.Put(c)
}

// A lane is a queue of calls before a client, and the workers that send what is
// in it, as much at once as there is. It needs no timer: while a batch is under
// way the next one gathers.
//
// The callers' wait is bounded here, not by the client: a client whose server does
// not answer keeps what it was given until the connection is lost, and would gather
// callers.
type lane struct {
	client   rueidis.Client
	queue    chan *call
	stop     chan struct{}
	stopped  sync.WaitGroup
	patience time.Duration
	stats    *counters
}

// maxBatch is the most calls that a worker sends at once.
const maxBatch = 128

// patience is how long a worker waits for a server before it gives up what it has
// sent, at least: its callers are to have gone before.
const patience = time.Second

func newLane(client rueidis.Client, workers, room int, o Options, stats *counters) *lane {
	n := &lane{client: client, queue: make(chan *call, room), stop: make(chan struct{}), patience: o.patience(), stats: stats}
	for range workers {
		n.stopped.Go(n.work)
	}
	return n
}

// close waits for the workers to end.
func (n *lane) close() {
	close(n.stop)
	n.stopped.Wait()
}

// do runs c, and waits for its answer no longer than budget. When it returns
// without an error the answer is in c.reply, and the caller recycles c; after an
// error it must not touch c.
func (n *lane) do(ctx context.Context, c *call, budget time.Duration) error {
	select {
	case n.queue <- c:
	default:
		c.recycle()
		n.stats.busy.Add(1)
		return ErrBusy
	}
	c.timer.Reset(budget)
	var err error
	select {
	case <-c.done:
		c.timer.Stop()
		return c.finish()
	case <-c.timer.C:
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
		c.timer.Stop()
	}
	switch {
	case c.state.CompareAndSwap(waiting, left):
		n.stats.timeouts.Add(1)
		return &TimeoutError{Err: err}
	case c.state.CompareAndSwap(sent, left):
		n.stats.timeouts.Add(1)
		return &TimeoutError{Sent: true, Err: err}
	}
	<-c.done
	return c.finish()
}

func (c *call) finish() error {
	err := c.err
	if err != nil {
		c.recycle()
	}
	return err
}

func (n *lane) work() {
	batch := make([]*call, 0, maxBatch)
	for {
		select {
		case c := <-n.queue:
			batch = append(batch[:0], c)
		case <-n.stop:
			n.refuse()
			return
		}
	gather:
		for len(batch) < maxBatch {
			select {
			case c := <-n.queue:
				batch = append(batch, c)
			default:
				break gather
			}
		}
		n.send(batch)
	}
}

// refuse answers what is left in the queue of a lane that ends.
func (n *lane) refuse() {
	for {
		select {
		case c := <-n.queue:
			if c.state.CompareAndSwap(waiting, sent) {
				c.settle(weir.ErrClosed)
			} else {
				c.recycle()
			}
		default:
			return
		}
	}
}

// send runs those of batch whose callers still wait.
func (n *lane) send(batch []*call) {
	live := batch[:0]
	for _, c := range batch {
		if c.state.CompareAndSwap(waiting, sent) {
			live = append(live, c)
		} else {
			c.recycle()
		}
	}
	if len(live) == 0 {
		return
	}
	n.stats.calls.Add(uint64(len(live)))
	ctx, cancel := context.WithTimeout(context.Background(), n.patience)
	defer cancel()
	var unknown, moving []*call
	sort := func(c *call, err error) {
		// Neither was applied. No other call is sent again.
		switch e, ok := rueidis.IsRedisErr(err); {
		case ok && e.IsNoScript():
			// A server that was restarted, or took over, has no scripts.
			unknown = append(unknown, c)
		case ok && e.IsTryAgain():
			// Some of its keys have moved to another server, and some not yet.
			moving = append(moving, c)
		default:
			c.settle(err)
		}
	}
	n.run(ctx, live, false, sort)
	for pause := time.Millisecond; len(unknown)+len(moving) > 0; pause *= 2 {
		first, later := unknown, moving
		unknown, moving = nil, nil
		if len(first) > 0 {
			n.stats.reloads.Add(uint64(len(first)))
			n.run(ctx, first, true, sort)
		}
		if len(later) > 0 {
			if pause > maxPause {
				n.run(ctx, later, true, (*call).settle)
				continue
			}
			time.Sleep(pause)
			n.run(ctx, later, true, sort)
		}
	}
}

// maxPause is the longest pause before calls are sent again whose keys are moving
// between the servers of a cluster.
const maxPause = 16 * time.Millisecond

// run sends calls, with the text of their scripts if whole, and tells each one's
// error after its reply was read.
func (n *lane) run(ctx context.Context, live []*call, whole bool, then func(*call, error)) {
	if len(live) == 1 {
		then(live[0], live[0].read(n.client.Do(ctx, n.command(live[0], whole))))
		return
	}
	commands := make(rueidis.Commands, 0, maxBatch)
	for _, c := range live {
		commands = append(commands, n.command(c, whole))
	}
	for i, r := range n.client.DoMulti(ctx, commands...) {
		then(live[i], live[i].read(r))
	}
}

func (n *lane) command(c *call, whole bool) rueidis.Completed {
	if whole {
		return n.client.B().Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	return n.client.B().Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

// read takes the integers of a reply.
func (c *call) read(r rueidis.RedisResult) error {
	values, err := r.ToArray()
	if err != nil {
		return err
	}
	c.reply = c.reply[:0]
	for i := range values {
		n, err := values[i].ToInt64()
		if err != nil {
			return errReply
		}
		c.reply = append(c.reply, n)
	}
	return nil
}

var errReply = errors.New("the script's reply is not a list of integers")

// settle hands c back to its caller, or recycles it if nobody waits.
func (c *call) settle(err error) {
	c.err = err
	if c.state.CompareAndSwap(sent, settled) {
		c.done <- struct{}{}
		return
	}
	c.recycle()
}
