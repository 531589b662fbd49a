package live

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxMessage is the most bytes that a message, and a line of it, may have.
const MaxMessage = 4 << 20

// Message is one server-sent event.
type Message struct {
	// Kind is its event field, "message" where there is none.
	Kind string
	Data []byte
}

// Reader reads server-sent events.
//
// Source: WHATWG HTML, 9.2.6 "Interpreting an event stream"; lines end with LF or
// CR LF, not with CR alone.
type Reader struct {
	lines *bufio.Scanner
	begun bool
}

// NewReader returns a reader of a stream.
func NewReader(r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), MaxMessage)
	return &Reader{lines: s}
}

// Next returns the next message that has data; its Data is the caller's. At the end
// it returns io.EOF; a message that the end cuts short is none.
func (r *Reader) Next() (Message, error) {
	var m Message
	var data []byte
	has := false
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if !r.begun {
			line, r.begun = bytes.TrimPrefix(line, []byte("\ufeff")), true
		}
		if len(line) == 0 {
			if has {
				if m.Kind == "" {
					m.Kind = "message"
				}
				m.Data = data
				return m, nil
			}
			m.Kind = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			m.Kind = string(value)
		case "data":
			if has {
				data = append(data, '\n')
			}
			data, has = append(data, value...), true
			if len(data) > MaxMessage {
				return Message{}, fmt.Errorf("live: a message of more than %d bytes", MaxMessage)
			}
		}
	}
	err := r.lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return Message{}, fmt.Errorf("live: a line of more than %d bytes", MaxMessage)
	case err != nil:
		return Message{}, err
	}
	return Message{}, io.EOF
}
