package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/store/internal/transport"
)

// unsettled are calls that were not applied: their scripts are not known to the server, or
// their keys are not sane.
type unsettled struct{ known, sane []*call }

func (n *pipeline) sendCalls(live []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), n.store.opt.callTimeout())
	defer cancel()
	var not unsettled
	sort := func(c *call, err error) {
		if err == nil {
			err = c.decodeReply(driver{n.store})
		}
		// Neither was applied. No other call is sent again.
		switch e, ok := rueidis.IsRedisErr(err); {
		case ok && e.IsNoScript():
			// A server that was restarted, or took over, has no scripts.
			not.known = append(not.known, c)
		case ok && e.IsTryAgain() && time.Now().Before(c.until):
			// Some of its keys have moved to another server, and some not yet.
			n.resendLater(c)
		case err != nil && !c.repaired && (isSpoilt(err) || isRejection(err)):
			c.why = err
			not.sane = append(not.sane, c)
		default:
			n.settleCall(c, err)
		}
	}
	n.runCalls(ctx, live, false, sort)
	for len(not.known) > 0 {
		first := not.known
		not.known = nil
		n.store.stats.reloads.Add(uint64(len(first)))
		n.runCalls(ctx, first, true, sort)
	}
	for _, c := range not.sane {
		n.sendRepaired(c)
	}
}

// maxPause is the longest pause before a call is sent again whose keys are moving
// between the servers of a cluster.
const maxPause = 16 * time.Millisecond

// resendLater sends a call that was not applied once more, after a pause. No worker waits with
// it.
func (n *pipeline) resendLater(c *call) {
	c.pause = min(max(2*c.pause, time.Millisecond), maxPause)
	time.AfterFunc(c.pause, func() { n.sendCalls([]*call{c}) })
}

// sendRepaired deletes keys of c which no script of ours can have written, and sends it
// once more if there was one: then nothing was charged.
func (n *pipeline) sendRepaired(c *call) {
	ctx, cancel := context.WithTimeout(context.Background(), n.store.opt.callTimeout())
	defer cancel()
	if !n.repairKeys(ctx, c.carrier.Ops) {
		n.settleCall(c, c.why)
		return
	}
	c.repaired, c.reply, c.bits = true, c.reply[:0], 0
	n.store.stats.calls.Add(1)
	n.sendCalls([]*call{c})
}

// settleCall hands c back to whoever asks. An answer without an error was decoded.
func (n *pipeline) settleCall(c *call, err error) {
	s := n.store
	if err != nil {
		err = n.explained(err)
	}
	carrier := c.carrier
	c.recycle()
	switch {
	case err == nil:
		carrier.Finish(nil)
	case isSpoilt(err):
		s.stats.errors.Add(1)
		carrier.Finish(&transport.Result{Outcome: transport.Rejected, MayRun: len(carrier.Ops) > 1, Err: err})
	default: // a server of several that refuses is not lost: its keys stay
		excused := errors.Is(err, errMismatch) || !isLoss(err) && len(s.nodes.pipelines()) > 1
		carrier.Finish(&transport.Result{Outcome: transport.Failed, MayRun: true, Excused: excused, Err: err})
	}
}
