package overlay

import "errors"

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
type StoreError struct{ Err error }

func (e *StoreError) Error() string {
	return "overlay: the store did not answer; whether the change was made shows the next look at the key: " + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *StoreError) Unwrap() error { return e.Err }

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
