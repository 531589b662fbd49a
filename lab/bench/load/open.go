package load

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Open sends requests at a constant rate, however long their answers take: what
// a slow answer holds up counts as well. A generator that waits for an answer
// before it sends the next request would leave that out ("coordinated
// omission").
type Open struct {
	// Servers are whom requests go to.
	Servers []Server
	// Rate is requests a second, to all servers together.
	Rate float64
	// Connections that are kept open to each server, each of which carries one
	// request before the first that counts. Where all are in use, requests wait
	// for one, which counts.
	Connections int
}

// Server is one that an open loop asks.
type Server struct {
	// Address is the host and port of an HTTP/1.1 server.
	Address string
	// Request is what to send, whole. It must not end the connection.
	Request []byte
}

// Trip is one request of an open loop and its answer. Instants are nanoseconds
// since the first request was due.
type Trip struct{ Due, Sent, Done int64 }

// Late is for how long the request waited before it was sent.
func (t Trip) Late() time.Duration { return time.Duration(max(t.Sent-t.Due, 0)) }

// FromDue is from when the request was due to the end of its answer.
func (t Trip) FromDue() time.Duration { return time.Duration(t.Done - t.Due) }

// FromSent is from when the request was sent to the end of its answer.
func (t Trip) FromSent() time.Duration { return time.Duration(t.Done - t.Sent) }

// Due returns when request i is due, in nanoseconds since the first.
func (o *Open) Due(i int) int64 { return int64(float64(i) / o.Rate * 1e9) }

// Count returns how many requests are due in d.
func (o *Open) Count(d time.Duration) int { return int(d.Seconds() * o.Rate) }

func (o *Open) check(order []uint8) error {
	switch {
	case len(order) == 0 || len(o.Servers) == 0 || o.Connections < 1:
		return fmt.Errorf("%d requests to %d servers over %d connections: nothing to send", len(order), len(o.Servers), o.Connections)
	case !(o.Rate > 0) || math.IsInf(o.Rate, 0):
		return fmt.Errorf("%g requests a second: want more than none", o.Rate)
	}
	for i, to := range order {
		if int(to) >= len(o.Servers) {
			return fmt.Errorf("request %d goes to server %d of %d", i, to, len(o.Servers))
		}
	}
	return nil
}

// answerTime bounds the wait for answers after the last request.
const answerTime = 10 * time.Second

var (
	statusOK      = []byte("HTTP/1.1 200 ")
	contentLength = []byte("Content-Length:")
	headEnd       = []byte("\r\n\r\n")
	lineEnd       = []byte("\r\n")
)

// answerSize returns how long the answer is that b begins with, 0 if its header
// is not whole yet. It must be of status 200 and state its length. It does not
// allocate.
func answerSize(b []byte) (int, error) {
	head := bytes.Index(b, headEnd)
	if head < 0 {
		return 0, nil
	}
	size, b := head+len(headEnd), b[:head]
	line, rest, _ := bytes.Cut(b, lineEnd)
	if !bytes.HasPrefix(line, statusOK) {
		return 0, fmt.Errorf("answered %q, want status 200", line)
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, lineEnd)
		if n := len(contentLength); len(line) > n && bytes.EqualFold(line[:n], contentLength) {
			length, err := strconv.ParseUint(string(bytes.TrimSpace(line[n:])), 10, 24)
			if err != nil {
				return 0, fmt.Errorf("an answer has the length %q", line[n:])
			}
			return size + int(length), nil
		}
	}
	return 0, errors.New("an answer does not state its length")
}
