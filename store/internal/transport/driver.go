package transport

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/storecalls"
)

// A Driver sends calls. It keeps no queue, and no record of failures. Safe for
// concurrent use.
type Driver interface {
	// Shards is how many there are. It does not change.
	Shards() int
	// Shard returns where a key is, from 0; that may change.
	Shard(key string) int
	// Send carries out calls of one shard, each at most once and independently. It
	// finishes every one before it returns, and is to do so when the call's Within has
	// passed.
	Send(shard int, calls []*Call)
	// Probe asks a shard whether it answers, and is to return within so long.
	Probe(shard int, within time.Duration) error
}

// A Divider is a driver of which a call takes keys of one part only. A shard may have
// several parts. Ops of several are decided by calls of one each.
type Divider interface {
	// Part returns the part of a key. It may change as servers come and go: it is below zero
	// while another server than its own has the key. Keys that go back to several servers are
	// of several parts even then.
	Part(key string) int
	// Check says why ops cannot be decided, before the first of their parts is asked.
	Check(ops []weir.Op) error
	// LeavesTrace reports whether what l is charged cannot be given back without a trace.
	LeavesTrace(l *weir.Limit) bool
	// Undone notes that so many charges were given back, or could not be because of err;
	// none: that a refund may have been carried out which the request has not got.
	Undone(ops int, err error)
}

// A Driven store has a driver, so that the queue of what is before it is the only one and
// the only judge of failures. Its own methods have a queue of their own.
type Driven interface {
	// Driver returns a driver for one queue, and what it wants of that.
	Driver() (Driver, Tuning)
}

// Tuning is what a driver wants of its queue. What is zero is the queue's own choice.
type Tuning struct {
	// Workers, Batch and Waiting are those of [Options].
	Workers, Batch, Waiting int
	// RunsOnly: a breaker opens by failures in a row, and not by half of the last calls.
	// What it opens for is dearer than calls that fail: other servers take the keys.
	RunsOnly bool
	// CountsOnly: no call of several ops is carried out whole or not at all, so nothing has a
	// mark.
	CountsOnly bool
	// ProbeFor is how long a probe may take, zero as long as the budget.
	ProbeFor time.Duration
	// Bind is called with the queue when that is made, before its first call. It may trip
	// shards.
	Bind func(*Queue)
	// Opened is called when the breaker of a shard opens, before [Options].Opened, and
	// Closed when it closes.
	Opened func(shard int, err error)
	Closed func(shard int)
	// Send is called instead of the driver's, for calls in calls' stead that it hands to that.
	Send func(d Driver, shard int, calls []*Call)
	// Watcher is told of the calls, and of their failures by the words of FailureOf. Nil means
	// that nobody is.
	Watcher   storecalls.Watcher
	FailureOf func(err error) string
}

// ReportFailure tells the watcher why a decision is made without the store, or why a call has no answer.
func (t *Tuning) ReportFailure(err error) {
	if t.Watcher != nil {
		t.Watcher.Fail(t.FailureOf(err))
	}
}
