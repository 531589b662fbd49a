package redis

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
)

// A pipeline sends calls of one shard to a client, as many at once as there are.
type pipeline struct {
	shard int
	store *Store
	*link
}

// maxBatch is the most calls that a worker sends at once.
const maxBatch = 128

// maxRows is the most rows that are decided by one script, which holds up whoever
// else asks the server.
const maxRows = 32

// timeout is how long a worker waits for a server before it gives up what it has
// sent, at least: its callers are to have gone before.
const timeout = time.Second

// isLost reports whether the server does not answer, and nobody waits for it.
func (n *pipeline) isLost() bool { return n != nil && n.store.bound.Load().IsShardOpen(n.shard) }

// explain says what a human can do about an error of the server, which is heard.
func (n *pipeline) explain(err error) error {
	n.heedError(err)
	if n.store.closed.Load() {
		return weir.ErrClosed
	}
	return explain(err)
}

// explained returns err as callers get it.
func (n *pipeline) explained(err error) error {
	switch {
	case isSpoilt(err):
		return err
	case isRejection(err):
		return rejection{n.explain(err)}
	}
	return n.explain(err)
}

// runCalls sends calls, with the text of their scripts if whole, and tells each one's
// error after its reply was read. It changes their order.
func (n *pipeline) runCalls(ctx context.Context, live []*call, whole bool, then func(*call, error)) {
	n.useClient(func(client rueidis.Client) { n.runCallsOn(ctx, client, live, whole, then) })
}

// runCallsOn is run with a client.
func (n *pipeline) runCallsOn(ctx context.Context, client rueidis.Client, live []*call, whole bool, then func(*call, error)) {
	commands := make(rueidis.Commands, 0, len(live))
	ends := make([]int, 0, len(live))
	for at := 0; at < len(live); at = ends[len(ends)-1] {
		end := at + n.batchable(live[at:])
		commands = append(commands, n.command(client.B(), live[at:end], whole))
		ends = append(ends, end)
	}
	n.store.stats.scripts.Add(uint64(len(commands)))
	if len(commands) == 1 {
		readReplies(client.Do(ctx, commands[0]), live, then)
		return
	}
	at := 0
	for i, r := range client.DoMulti(ctx, commands...) {
		readReplies(r, live[at:ends[i]], then)
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
	verb, name := "EVALSHA", script.sha
	if whole {
		verb, name = "EVAL", script.text
	}
	b := to.Arbitrary(verb, name, strconv.Itoa(keys))
	for _, c := range group {
		b = b.Keys(c.keys...)
	}
	return b.Args(before...).Args(first.args...).Build()
}

// readReplies gives each call of a group its part of the reply.
func readReplies(r rueidis.RedisResult, group []*call, then func(*call, error)) {
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
			then(c, c.readIntegers(values))
		default:
			then(c, c.readRow(values[0], values[1+i*words:1+(i+1)*words]))
		}
	}
}
