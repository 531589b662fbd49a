package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A call is one script to run. It is its caller's but for when the queue carries it; one
// that its caller has left is never used again.
type call struct {
	script *script
	keys   []string
	args   []string

	reply []int64
	// bits of a row's answer, see rows.lua.
	bits int64

	carrier *transport.Call
	// pause is how long it waited before it was sent again, zero if it never was, and until
	// when that is of use.
	pause time.Duration
	until time.Time
}

var calls = sync.Pool{New: func() any { return new(call) }}

func newCall(s *script) *call {
	c := calls.Get().(*call)
	*c = call{script: s, keys: c.keys[:0], args: c.args[:0], reply: c.reply[:0]}
	return c
}

func (c *call) recycle() {
	clear(c.keys)
	clear(c.args)
	calls.Put(c)
}

// A pipeline sends the calls of its queue to a client, as much at once as there is. It is the
// driver of that queue, whose breaker is open while the pipeline is lost.
type pipeline struct {
	queue *transport.Queue
	// reached is the client, nil as long as the server never was.
	reached  atomic.Pointer[rueidis.Client]
	patience time.Duration
	stats    *counters
	pipelineOptions
}

// pipelineOptions are what pipelines differ in.
type pipelineOptions struct {
	workers, room int
	// slots: the servers have a slot for each key, and a script takes keys of one.
	slots bool
	// of are the pipelines of the store, nil if there is one: that is never lost. Of others
	// probe finds out whether the server answers, and opened and closed are told when the
	// pipeline is lost and found.
	of     *parts
	probe  func(ctx context.Context) error
	opened func(err error)
	closed func()
}

// maxBatch is the most calls that a worker sends at once.
const maxBatch = 128

// maxRows is the most rows that are decided by one script, which holds up whoever
// else asks the server.
const maxRows = 32

// patience is how long a worker waits for a server before it gives up what it has
// sent, at least: its callers are to have gone before.
const patience = time.Second

func newPipeline(client rueidis.Client, o Options, stats *counters, lo pipelineOptions) *pipeline {
	n := &pipeline{patience: o.patience(), stats: stats, pipelineOptions: lo}
	if client != nil {
		n.reached.Store(&client)
	}
	base := time.Now()
	env := transport.NewEnv(func() clock.Node { return clock.Node(time.Since(base) / time.Microsecond) }, o.meter)
	n.queue = transport.New(n, env, transport.Options{
		Budget: o.Timeout, Timeout: o.patience(), Workers: lo.workers, Batch: maxBatch, Waiting: lo.room,
		ProbeEvery: probeEvery, ProbeFor: o.patience(), Seed: rand.Uint64(), RunsOnly: true, NeverOpens: lo.of == nil,
		Opened: func(_ int, err error) { lo.opened(err) }, Closed: func(int) { lo.closed() },
	})
	if lo.of != nil {
		lo.of.pipelines = append(lo.of.pipelines, n)
	}
	return n
}

// isLost reports whether the server does not answer, and nobody waits for it.
func (n *pipeline) isLost() bool { return n != nil && n.of != nil && n.queue.IsOpen() }

// Shards implements transport.Driver.
func (n *pipeline) Shards() int { return 1 }

// Shard implements transport.Driver.
func (n *pipeline) Shard(string) int { return 0 }

// Probe implements transport.Driver.
func (n *pipeline) Probe(_ int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return n.probe(ctx)
}

// client returns the client, nil if there is none.
func (n *pipeline) client() rueidis.Client {
	if c := n.reached.Load(); c != nil {
		return *c
	}
	return nil
}

// renew gives calls from now on another client, and returns the one before, nil
// if there was none.
func (n *pipeline) renew(client rueidis.Client) rueidis.Client {
	if old := n.reached.Swap(&client); old != nil {
		return *old
	}
	return nil
}

// close ends the calls under way.
func (n *pipeline) close() {
	if client := n.client(); client != nil {
		client.Close()
	}
	n.queue.Close()
}

// do runs c, and waits for its answer no longer than patience; each time that a budget
// has passed, late is told, if it is not nil. When do returns without an error the answer
// is in c.reply, and the caller recycles c; after an error it must not touch c.
func (n *pipeline) do(ctx context.Context, c *call, patience time.Duration, class transport.Class, late func()) error {
	err := n.queue.Carry(ctx, 0, class, patience, c, late)
	var r *transport.Result
	switch {
	case !errors.As(err, &r):
		return nil
	case errors.Is(err, transport.ErrBusy):
		n.stats.busy.Add(1)
		return ErrBusy
	case r.Outcome == transport.Open:
		return errLost
	case r.Outcome == transport.CallerGone:
		n.stats.timeouts.Add(1)
		return &TimeoutError{Sent: r.MayRun, Err: r.Err, caller: true, result: r}
	case errors.Is(err, transport.ErrLate):
		n.stats.timeouts.Add(1)
		return &TimeoutError{Sent: r.MayRun, Err: context.DeadlineExceeded}
	}
	return r.Err
}

// Send implements transport.Driver.
func (n *pipeline) Send(_ int, batch []*transport.Call) {
	live := make([]*call, len(batch))
	for i, carrier := range batch {
		c := carrier.Payload.(*call)
		c.carrier, c.until = carrier, time.Now().Add(carrier.Within)
		live[i] = c
	}
	n.stats.calls.Add(uint64(len(live)))
	n.send(live)
}

func (n *pipeline) send(live []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), n.patience)
	defer cancel()
	var unknown []*call
	sort := func(c *call, err error) {
		// Neither was applied. No other call is sent again.
		switch e, ok := rueidis.IsRedisErr(err); {
		case ok && e.IsNoScript():
			// A server that was restarted, or took over, has no scripts.
			unknown = append(unknown, c)
		case ok && e.IsTryAgain() && time.Now().Before(c.until):
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

// again sends a call that was not applied once more, after a pause. No worker waits with
// it.
func (n *pipeline) again(c *call) {
	c.pause = min(max(2*c.pause, time.Millisecond), maxPause)
	time.AfterFunc(c.pause, func() { n.send([]*call{c}) })
}

// run sends calls, with the text of their scripts if whole, and tells each one's
// error after its reply was read. It changes their order.
func (n *pipeline) run(ctx context.Context, live []*call, whole bool, then func(*call, error)) {
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
func (n *pipeline) together(live []*call) int {
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
func (n *pipeline) command(to rueidis.Builder, group []*call, whole bool) rueidis.Completed {
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

// settle hands c back to its caller.
func (c *call) settle(err error) {
	switch {
	case err == nil:
		c.carrier.Finish(nil)
	case isLoss(err):
		c.carrier.Finish(&transport.Result{Outcome: transport.Failed, MayRun: true, Err: err})
	default:
		c.carrier.Finish(&transport.Result{Outcome: transport.Rejected, Err: err})
	}
}
