package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/store/internal/transport"
)

// A call is one script to run, for a call of the queue. It
// is the pipeline's from send until it is settled.
type call struct {
	script *script
	keys   []string
	args   []string

	reply []int64
	// bits of a row's answer, see rows.lua.
	bits int64

	// What the queue carries: an op that stands alone, or ops of one part in work.
	carrier  *transport.Call
	single   *plan
	work     *work
	to       *pipeline
	repaired bool
	why      error // of one to be repaired
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
	if c.work != nil {
		c.work.recycle()
	}
	calls.Put(c)
}

// A pipeline sends calls of one shard to a client, as many at once as there are.
type pipeline struct {
	shard int
	store *Store
	// reached is the client, nil as long as the server never was.
	reached atomic.Pointer[rueidis.Client]
}

// maxBatch is the most calls that a worker sends at once.
const maxBatch = 128

// maxRows is the most rows that are decided by one script, which holds up whoever
// else asks the server.
const maxRows = 32

// timeout is how long a worker waits for a server before it gives up what it has
// sent, at least: its callers are to have gone before.
const timeout = time.Second

func newPipeline(s *Store, shard int, client rueidis.Client) *pipeline {
	n := &pipeline{shard: shard, store: s}
	if client != nil {
		n.reached.Store(&client)
	}
	return n
}

// isLost reports whether the server does not answer, and nobody waits for it.
func (n *pipeline) isLost() bool { return n != nil && n.store.bound.Load().IsShardOpen(n.shard) }

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
}

// unsettled are calls that were not applied: their scripts are not known to the server, or
// their keys are not sane.
type unsettled struct{ known, sane []*call }

func (n *pipeline) send(live []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), n.store.opt.callTimeout())
	defer cancel()
	var not unsettled
	sort := func(c *call, err error) {
		if err == nil {
			err = c.decode(driver{n.store})
		}
		// Neither was applied. No other call is sent again.
		switch e, ok := rueidis.IsRedisErr(err); {
		case ok && e.IsNoScript():
			// A server that was restarted, or took over, has no scripts.
			not.known = append(not.known, c)
		case ok && e.IsTryAgain() && time.Now().Before(c.until):
			// Some of its keys have moved to another server, and some not yet.
			n.again(c)
		case err != nil && !c.repaired && (isSpoilt(err) || isRejection(err)):
			c.why = err
			not.sane = append(not.sane, c)
		default:
			n.settle(c, err)
		}
	}
	n.run(ctx, live, false, sort)
	for len(not.known) > 0 {
		first := not.known
		not.known = nil
		n.store.stats.reloads.Add(uint64(len(first)))
		n.run(ctx, first, true, sort)
	}
	for _, c := range not.sane {
		n.sendRepaired(c)
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
		end := at + n.batchable(live[at:])
		commands = append(commands, n.command(client.B(), live[at:end], whole))
		ends = append(ends, end)
	}
	n.store.stats.scripts.Add(uint64(len(commands)))
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

// batchable moves the calls that one script can decide with the first of live to its
// front, and returns how many they are.
func (n *pipeline) batchable(live []*call) int {
	first := live[0]
	if first.script.words == 0 || n.store.hasSlots() {
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
