package node

import (
	"errors"
	"slices"
)

// closers close the parts of a process, in the order in which these were opened.
type closers []func() error

// close closes all parts, the last that was opened first.
func (c closers) close() error {
	var errs []error
	for _, closePart := range slices.Backward(c) {
		errs = append(errs, closePart())
	}
	return errors.Join(errs...)
}
