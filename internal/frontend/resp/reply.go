package resp

import (
	"errors"
	"net"
	"strconv"
	"time"
)

// A writer gathers the replies to a client, and writes them.
type writer struct {
	s  *Server
	nc net.Conn

	out   []byte // replies not yet written
	proto int    // the version of the protocol that they are in, 2 or 3
	// lost: nothing can be written any more.
	lost    bool
	writeBy time.Time // the deadline that is set
}

// flush writes the replies. A client that does not take them is cut off.
func (w *writer) flush() {
	w.write(w.out)
	w.out = w.out[:0]
}

func (w *writer) write(b []byte) {
	if len(b) == 0 || w.lost {
		return
	}
	timeout := w.s.opt.Timeout
	// Setting a deadline takes longer than a reply: it is set for the next writes
	// too.
	if now := time.Now(); w.writeBy.Sub(now) < timeout {
		w.writeBy = now.Add(timeout + timeout/2)
		_ = w.nc.SetWriteDeadline(w.writeBy) // it fails on a closed connection, and then so does the write
	}
	if _, err := w.nc.Write(b); err != nil {
		w.lost = true
		if isTimeout(err) {
			w.s.slow.Add(1)
		}
	}
}

// writeDirect writes a large part of a reply as it is, without copying it.
func (w *writer) writeDirect(b []byte) {
	w.flush()
	w.write(b)
}

// replyBulk replies with what the client sent. A large text is written from where it
// is.
func (w *writer) replyBulk(b []byte) {
	if len(b) < smallBuffer {
		w.out = appendBulk(w.out, b)
		return
	}
	w.out = appendHead(w.out, '$', int64(len(b)))
	w.writeDirect(b)
	w.out = append(w.out, '\r', '\n')
}

// Replies are appended to a buffer. Those that RESP3 has a form of its own for
// take the version: 2 or 3.

func appendInt(b []byte, n int64) []byte { return appendHead(b, ':', n) }

func appendBulk[T string | []byte](b []byte, text T) []byte {
	b = appendHead(b, '$', int64(len(text)))
	b = append(b, text...)
	return append(b, '\r', '\n')
}

func appendSimple(b []byte, text string) []byte {
	b = append(b, '+')
	b = append(b, text...)
	return append(b, '\r', '\n')
}

// appendError appends an error, whose text begins with its code. What would end
// the line becomes a space: parts of it may be the client's.
func appendError(b []byte, text string) []byte {
	b = append(b, '-')
	for i := range len(text) {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		b = append(b, c)
	}
	return append(b, '\r', '\n')
}

func appendHead(b []byte, kind byte, n int64) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, n, 10)
	return append(b, '\r', '\n')
}

func appendArray(b []byte, n int) []byte { return appendHead(b, '*', int64(n)) }

// appendMap appends the head of a map of n pairs: in RESP2 an array of names and
// values in turn.
func appendMap(b []byte, proto, n int) []byte {
	if proto == 3 {
		return appendHead(b, '%', int64(n))
	}
	return appendArray(b, 2*n)
}

func appendNull(b []byte, proto int) []byte {
	if proto == 3 {
		return append(b, "_\r\n"...)
	}
	return append(b, "$-1\r\n"...)
}

// appendBool appends a truth value: in RESP2 1 or 0.
func appendBool(b []byte, proto int, v bool) []byte {
	switch {
	case proto == 3 && v:
		return append(b, "#t\r\n"...)
	case proto == 3:
		return append(b, "#f\r\n"...)
	case v:
		return append(b, ":1\r\n"...)
	}
	return append(b, ":0\r\n"...)
}

// isTimeout reports whether err is that of a deadline.
func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}
