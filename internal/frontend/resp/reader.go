package resp

import (
	"cmp"
	"errors"
	"io"
	"net"
	"time"
)

// A reader takes in what a client sends and cuts it into commands, in place: they hold
// until it reads on.
type reader struct {
	s  *Server
	nc net.Conn

	in       []byte // read so far and not yet taken: in[from:to]
	from, to int
	filled   bool  // the last read filled the buffer
	large    int64 // what of the buffer counts as large
	parser   parser

	partialBy time.Time // when the rest of a command must be there
	readBy    time.Time // the deadline that is set
}

// errNoRoom: the client may have no more memory.
var errNoRoom = errors.New("too many large requests at once, try again")

// fillBuffer reads what there is. authBy is when the client must have authenticated, zero if it
// has.
func (r *reader) fillBuffer(now, authBy time.Time) error {
	if !r.makeRoom() {
		return errNoRoom
	}
	r.setReadDeadline(now, authBy)
	n, err := r.nc.Read(r.in[r.to:])
	r.to += n
	r.filled = r.to == len(r.in)
	if n > 0 {
		return nil
	}
	return cmp.Or(err, io.ErrNoProgress)
}

// nextCommand makes cmd the next command, and reports false if not all of it is there.
func (r *reader) nextCommand(cmd *command, most bounds) (bool, error) {
	p := &r.parser
	done, err := p.parseCommand(r.in[r.from:r.to], most)
	if !done || err != nil {
		return false, err
	}
	*cmd = command{raw: r.in[r.from : r.from+int(p.pos)], args: p.args, inline: p.inline}
	r.skipCommand(int(p.pos))
	p.reset()
	return true, nil
}

// skipCommand goes on behind a command of n bytes.
func (r *reader) skipCommand(n int) {
	r.from += n
	r.partialBy = time.Time{}
}

// makeRoom sees to it that there is room to read into, and returns false if the
// client may have no more.
func (r *reader) makeRoom() bool {
	size := len(r.in)
	switch {
	case r.from == r.to:
		r.from, r.to = 0, 0
		switch {
		case size > usualBuffer:
			size = smallBuffer
		case r.filled:
			size = usualBuffer
		}
	case r.from > 0:
		r.to = copy(r.in, r.in[r.from:r.to])
		r.from = 0
	}
	if r.to == size {
		size = max(2*size, usualBuffer)
	}
	if size == len(r.in) {
		return true
	}
	if !r.s.resizeLarge(&r.large, largePart(size)) {
		return false
	}
	grown := make([]byte, size)
	copy(grown, r.in[:r.to])
	r.in = grown
	return true
}

// setReadDeadline sets the deadline of the next read.
func (r *reader) setReadDeadline(now, authBy time.Time) {
	if by := r.deadline(now, authBy); !by.Equal(r.readBy) {
		r.readBy = by
		_ = r.nc.SetReadDeadline(by) // it fails on a closed connection, and then so does the read
	}
	// Looked at last: the drain stores its time first, and then sets the deadline
	// itself.
	if drain := r.s.drainBy.Load(); drain != 0 {
		_ = r.nc.SetReadDeadline(time.Unix(0, drain))
	}
}

// deadline returns when the next read must have brought something, zero for
// whenever.
func (r *reader) deadline(now, authBy time.Time) time.Time {
	switch idle := r.s.opt.IdleTimeout; {
	case !authBy.IsZero():
		return authBy
	case r.from < r.to:
		if r.partialBy.IsZero() {
			r.partialBy = now.Add(r.s.opt.Timeout)
		}
		return r.partialBy
	case idle > 0:
		by := now.Add(idle)
		if late := by.Sub(r.readBy); late >= 0 && late < idle/8 {
			return r.readBy // setting a deadline takes longer than most commands
		}
		return by
	}
	return time.Time{}
}

// largePart returns how much of a buffer of n bytes counts as large.
func largePart(n int) int64 { return int64(max(n-usualBuffer, 0)) }

// resizeLarge makes what counts as large to bytes, and reports false if all connections
// together have no room for it.
func (s *Server) resizeLarge(counted *int64, to int64) bool {
	more := to - *counted
	if s.large.Add(more) > maxLarge && more > 0 {
		s.large.Add(-more)
		return false
	}
	*counted = to
	return true
}
