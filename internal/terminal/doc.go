// Package terminal writes what commands print for a person: nothing that others wrote reaches
// the terminal as a command, and lines have the colours of what they say.
package terminal

import "io"

// Wrap returns a writer for what a command prints, in colour if that is wanted of w, and what
// writes the beginning of a line that has not ended.
func Wrap(w io.Writer) (out io.Writer, flush func() error) {
	if !WantsColour(w) {
		return &cleaner{w: w}, func() error { return nil }
	}
	p := &painter{w: w}
	return &cleaner{w: p}, p.flush
}
