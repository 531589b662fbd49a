package redis

import (
	"context"
	"errors"
	"sync/atomic"
)

// failuresInRow is how many calls a part fails running until it is lost.
const failuresInRow = 5

// PartError: some of the servers did not answer, or are lost, and others go on.
// What is kept on those is decided as ever.
type PartError struct{ Err error }

func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *PartError) Unwrap() error { return e.Err }

// Partial returns true: the error says nothing of the rest of the store, as
// package tier asks.
func (e *PartError) Partial() bool { return true }

// Unsent reports whether no server has got the call.
func (e *PartError) Unsent() bool { return errors.Is(e.Err, errLost) }

// errLost: the keys of a lost part wait for it, or all parts are lost.
var errLost = errors.New("store redis: the server of this key is lost, and no other takes over: all are lost, or it is one of a cluster, or ring_on_loss is policy")

// A part is a server of a ring, or a range of slots of a cluster: it can be away
// while others are not. One that fails failuresInRow calls running is lost, and
// nobody waits for it, until a probe finds it.
type part struct {
	failures atomic.Int64 // running
	away     atomic.Bool
	of       *parts
	// lost is told when the part is from now on.
	lost func(error)
}

// parts are all of a store.
type parts struct {
	count int64
	away  atomic.Int64
}

func (p *part) isLost() bool { return p.away.Load() }

// lose takes the part for lost, and reports whether it was not.
func (p *part) lose() bool {
	if p.away.Swap(true) {
		return false
	}
	p.of.away.Add(1)
	return true
}

// found takes a part for present, and reports whether it was lost.
func (p *part) found() bool {
	p.failures.Store(0)
	if !p.away.Swap(false) {
		return false
	}
	p.of.away.Add(-1)
	return true
}

// note tells how a call of the part went.
func (p *part) note(err error) {
	if err == nil {
		if p.failures.Load() != 0 {
			p.failures.Store(0)
		}
		return
	}
	if isLoss(err) && p.failures.Add(1) >= failuresInRow && p.lose() {
		p.lost(err)
	}
}

// isLoss reports whether an error says that the server is away or does not serve yet,
// not that it refuses.
func isLoss(err error) bool {
	if e, ok := said(err); ok && notYet(e) {
		return true
	}
	var late *TimeoutError
	if errors.As(err, &late) && late.caller {
		return false
	}
	return err != nil && !Refused(err) && !errors.Is(err, ErrBusy) && !errors.Is(err, context.Canceled)
}

// about returns err as one of this part alone, if it is and others are present.
func (p *part) about(err error) error {
	if p == nil || !isLoss(err) || p.of.away.Load() == p.of.count {
		return err
	}
	return &PartError{err}
}
