package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/lateness"
)

// What becomes of a call.
const (
	waiting uint32 = iota // in the queue: nobody knows of it
	sent                  // it may be applied at any time
	settled               // its answer is there
	left                  // its caller waits no longer: its time is over
	gone                  // its caller has gone before: the server is still judged by it
)

// A call is one script to run. Its caller and the worker that runs it hand it to
// each other by its state: whoever comes last recycles it.
type call struct {
	script *script
	keys   []string
	args   []string

	reply []int64
	// bits of a row's answer, see rows.lua.
	bits int64
	err  error
	// pause is how long it waited before it was sent again, zero if it never was.
	pause time.Duration

	// part is what is judged by how the call goes, nil for none.
	part *part
	// over is closed when the call of a caller that has gone has ended.
	over chan struct{}

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
	c.script, c.keys, c.args, c.reply, c.bits, c.err, c.pause, c.part, c.over = s, c.keys[:0], c.args[:0], c.reply[:0], 0, nil, 0, nil, nil
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
	// reached is the client, nil as long as the server never was.
	reached  atomic.Pointer[rueidis.Client]
	queue    chan *call
	stop     chan struct{}
	stopped  sync.WaitGroup
	patience time.Duration
	stats    *counters
	// slots: the servers have a slot for each key, and a script takes keys of one.
	slots bool
	meter *lateness.Meter
}

// maxBatch is the most calls that a worker sends at once.
const maxBatch = 128

// maxRows is the most rows that are decided by one script, which holds up whoever
// else asks the server.
const maxRows = 32

// patience is how long a worker waits for a server before it gives up what it has
// sent, at least: its callers are to have gone before.
const patience = time.Second

func newLane(client rueidis.Client, workers, room int, slots bool, o Options, stats *counters) *lane {
	n := &lane{queue: make(chan *call, room), stop: make(chan struct{}), patience: o.patience(), stats: stats, slots: slots, meter: o.meter}
	if client != nil {
		n.reached.Store(&client)
	}
	for range workers {
		n.stopped.Go(n.work)
	}
	return n
}

// client returns the client, nil if there is none.
func (n *lane) client() rueidis.Client {
	if c := n.reached.Load(); c != nil {
		return *c
	}
	return nil
}

// renew gives calls from now on another client, and returns the one before, nil
// if there was none.
func (n *lane) renew(client rueidis.Client) rueidis.Client {
	if old := n.reached.Swap(&client); old != nil {
		return *old
	}
	return nil
}

// close waits for the workers to end.
func (n *lane) close() {
	close(n.stop)
	n.stopped.Wait()
}

// do runs c, and waits for its answer no longer than patience; each time that a budget
// of it has passed, late is told, if it is not nil. When do returns without an error
// the answer is in c.reply, and the caller recycles c; after an error it must not touch
// c.
func (n *lane) do(ctx context.Context, c *call, budget, patience time.Duration, late func()) error {
	select {
	case n.queue <- c:
	default:
		c.recycle()
		n.stats.busy.Add(1)
		return ErrBusy
	}
	if late == nil {
		budget = patience
	}
	own := n.meter.Allow()
	err, then := &TimeoutError{Err: context.DeadlineExceeded}, left
wait:
	for {
		c.timer.Reset(min(budget, patience))
	again:
		select {
		case <-c.done:
			c.timer.Stop()
			return c.finish()
		case <-c.timer.C:
			if more := own.More(); more > 0 {
				c.timer.Reset(more)
				goto again
			}
			if patience -= budget; patience <= 0 {
				break wait
			}
			late()
		case <-ctx.Done():
			err.Err, err.caller, then = ctx.Err(), true, gone
			c.over = make(chan struct{})
			err.over = c.over
			c.timer.Stop()
			break wait
		}
	}
	switch {
	case c.state.CompareAndSwap(waiting, left):
		n.stats.timeouts.Add(1)
		return err
	case c.state.CompareAndSwap(sent, then):
		n.stats.timeouts.Add(1)
		err.Sent = true
		return err
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
			c.refuse(weir.ErrClosed)
		default:
			return
		}
	}
}

// refuse answers a call that waits.
func (c *call) refuse(err error) {
	if c.state.CompareAndSwap(waiting, sent) {
		c.settle(err)
	} else {
		c.recycle()
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
	var unknown []*call
	sort := func(c *call, err error) {
		// Neither was applied. No other call is sent again.
		switch e, ok := rueidis.IsRedisErr(err); {
		case ok && e.IsNoScript():
			// A server that was restarted, or took over, has no scripts.
			unknown = append(unknown, c)
		case ok && e.IsTryAgain():
			// Some of its keys have moved to another server, and some not yet.
			n.again(c)
		default:
			c.settle(err)
		}
	}
	n.run(ctx, live, false, sort)
	for len(unknown) > 0 {
		first := unknown
		unknown = nil
		n.stats.reloads.Add(uint64(len(first)))
		n.run(ctx, first, true, sort)
	}
}

// maxPause is the longest pause before a call is sent again whose keys are moving
// between the servers of a cluster.
const maxPause = 16 * time.Millisecond

// again puts a call that was not applied back into the queue after a pause, as long as
// its caller waits. No worker waits with it.
func (n *lane) again(c *call) {
	if !c.state.CompareAndSwap(sent, waiting) {
		c.unheard(nil)
		return
	}
	c.pause = min(max(2*c.pause, time.Millisecond), maxPause)
	time.AfterFunc(c.pause, func() {
		select {
		case n.queue <- c:
		default:
			n.stats.busy.Add(1)
			c.refuse(ErrBusy)
			return
		}
		select {
		case <-n.stop:
			n.refuse() // the workers may have ended before
		default:
		}
	})
}

// run sends calls, with the text of their scripts if whole, and tells each one's
// error after its reply was read. It changes their order.
func (n *lane) run(ctx context.Context, live []*call, whole bool, then func(*call, error)) {
	client := n.client()
	commands := make(rueidis.Commands, 0, len(live))
	ends := make([]int, 0, len(live))
	for at := 0; at < len(live); at = ends[len(ends)-1] {
		end := at + n.together(live[at:])
		commands = append(commands, n.command(client.B(), live[at:end], whole))
		ends = append(ends, end)
	}
	n.stats.scripts.Add(uint64(len(commands)))
	if len(commands) == 1 {
		read(client.Do(ctx, commands[0]), live, then)
		return
	}
	at := 0
	for i, r := range client.DoMulti(ctx, commands...) {
		read(r, live[at:ends[i]], then)
		at = ends[i]
	}
}

// together moves the calls that one script can decide with the first of live to its
// front, and returns how many they are.
func (n *lane) together(live []*call) int {
	first := live[0]
	if first.script.words == 0 || n.slots {
		return 1
	}
	same := 1
	for i := 1; i < len(live) && same < maxRows; i++ {
		if c := live[i]; c.script == first.script && slices.Equal(c.args, first.args) {
			live[i], live[same] = live[same], c
			same++
		}
	}
	return same
}

// command returns the command that decides calls of one script and the same
// arguments.
func (n *lane) command(to rueidis.Builder, group []*call, whole bool) rueidis.Completed {
	first, keys := group[0], 0
	for _, c := range group {
		keys += len(c.keys)
	}
	script, before := first.script, []string(nil)
	if len(group) == 1 {
		script, before = script.for1()
	}
	if whole {
		b := to.Eval().Script(script.text).Numkeys(int64(keys)).Key(first.keys...)
		for _, c := range group[1:] {
			b = b.Key(c.keys...)
		}
		return b.Arg(before...).Arg(first.args...).Build()
	}
	b := to.Evalsha().Sha1(script.sha).Numkeys(int64(keys)).Key(first.keys...)
	for _, c := range group[1:] {
		b = b.Key(c.keys...)
	}
	return b.Arg(before...).Arg(first.args...).Build()
}

// read gives each call of a group its part of the reply.
func read(r rueidis.RedisResult, group []*call, then func(*call, error)) {
	values, err := r.ToArray()
	script := group[0].script
	if len(group) == 1 {
		script, _ = script.for1()
	}
	words := script.words
	if err == nil && words > 0 && len(values) != 1+len(group)*words {
		err = errReply
	}
	for i, c := range group {
		switch {
		case err != nil:
			then(c, err)
		case words == 0:
			then(c, c.read(values))
		default:
			then(c, c.readRow(values[0], values[1+i*words:1+(i+1)*words]))
		}
	}
}

// read takes the integers of a reply.
func (c *call) read(values []rueidis.RedisMessage) error {
	for i := range values {
		n, err := values[i].ToInt64()
		if err != nil {
			return errReply
		}
		c.reply = append(c.reply, n)
	}
	return nil
}

// readRow makes of the time and of a row's words what other scripts reply.
func (c *call) readRow(time rueidis.RedisMessage, row []rueidis.RedisMessage) error {
	if row[0].IsString() {
		why, err := row[0].ToString()
		if err != nil {
			return errReply
		}
		return rowError(why)
	}
	if err := c.read(row); err != nil {
		return err
	}
	twice, err := time.ToInt64()
	if err != nil {
		return errReply
	}
	c.bits = c.reply[0]
	c.reply[0] = twice + c.bits&1
	return nil
}

// A rowError is what a server said of one row: it answered, and decided the others.
type rowError string

func (e rowError) Error() string { return string(e) }

var errReply = errors.New("the script's reply is not a list of integers")

// settle hands c back to its caller, or recycles it if nobody waits.
func (c *call) settle(err error) {
	c.err = err
	if c.state.CompareAndSwap(sent, settled) {
		c.done <- struct{}{}
		return
	}
	c.unheard(err)
}

// unheard ends a call that nobody waits for any more.
func (c *call) unheard(err error) {
	if c.state.Load() == gone {
		if c.part != nil {
			c.part.note(err)
		}
		close(c.over)
	}
	c.recycle()
}
