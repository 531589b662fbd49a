package redis

import (
	"context"
	"errors"
)

// PartError: some of the servers did not answer, or are lost, and others go on.
// What is kept on those is decided as ever.
type PartError struct{ Err error }

func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *PartError) Unwrap() error { return e.Err }

// errLost: the keys of a lost part wait for it, or all parts are lost.
var errLost = errors.New("store redis: the server of this key is lost, and no other takes over: all are lost, or it is one of a cluster, or ring_on_loss is policy, or the limit is pinned")

// lost returns how many shards are.
func (s *Store) lost() (n int) {
	for _, p := range s.nodes.all() {
		if p.isLost() {
			n++
		}
	}
	return n
}

// isLoss reports whether an error says that the server is away or does not serve yet,
// not that it refuses.
func isLoss(err error) bool {
	if e, ok := replyError(err); ok && notYet(e) {
		return true
	}
	return err != nil && !Refused(err) && !errors.Is(err, context.Canceled)
}

// about returns err as one of a part alone, if it is and others are not lost.
func (s *Store) about(err error) error {
	if len(s.nodes.all()) == 1 || !isLoss(err) || isSpoilt(err) || s.bound.Load().IsOpen() {
		return err
	}
	return &PartError{err}
}
