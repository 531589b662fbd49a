package overlay

import (
	"errors"
	"fmt"
)

// Errors of a change.
var (
	// ErrContended: other nodes changed the document again and again.
	ErrContended = errors.New("overlay: other nodes were changing the same document all the while: try again")
	// ErrUnread: what is on the board cannot be read, so it is not changed.
	ErrUnread = errors.New("overlay: a document of what operators changed cannot be read in the store, and is left as it is: " +
		"a newer version wrote it, or it is damaged; delete it, and the nodes put back the last one that they could read")
	// ErrFull: as many keys and limits are changed as can be.
	ErrFull = errors.New("overlay: too many keys and limits are changed: take some back, or write them into the rules")
)

// StoreError: the board did not answer, so a change was not made, or may have been.
type StoreError struct {
	Err error
	// Sent: the change may have been made.
	Sent bool
}

func (e *StoreError) Error() string { return e.Detail() + ": " + e.Err.Error() }

// Detail is e for operators: the log has why.
func (e *StoreError) Detail() string {
	if e.Sent {
		return "the store did not answer in time; whether the change was made shows the next look at the key"
	}
	return "the store is down, so nothing was changed; start it again; a ban can be of this node alone: weir key ban --here"
}

// Unwrap returns e.Err.
func (e *StoreError) Unwrap() error { return e.Err }

// FileError: the board is a file that cannot be written, so a change was not made.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Detail() + ": " + e.Err.Error() }

// Detail is e for operators: the log has why.
func (e *FileError) Detail() string {
	return "the file of --overlay cannot be written, so nothing was changed; see the log; a ban can be of this node alone: weir key ban --here"
}

// Unwrap returns e.Err.
func (e *FileError) Unwrap() error { return e.Err }

// AuditError: the audit log cannot be read, as the board does not answer. Pending changes
// wait on this node.
type AuditError struct {
	Err     error
	Pending int
}

func (e *AuditError) Error() string { return e.Detail() + ": " + e.Err.Error() }

// Detail is e for operators: the log has why.
func (e *AuditError) Detail() string {
	return fmt.Sprintf("the store is down, and the audit log is in it; changes of this node that it gets when it is back: %d, all of them in the node's log", e.Pending)
}

// NumbersError: a limit cannot have the numbers of an override.
type NumbersError struct{ Err error }

func (e *NumbersError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *NumbersError) Unwrap() error { return e.Err }

// ModeError: a limit cannot have a mode.
type ModeError struct{ Err error }

func (e *ModeError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *ModeError) Unwrap() error { return e.Err }
