package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// resp speaks the Redis protocol, as much of it as tests need to look behind a
// client's back.
type resp struct {
	w io.Writer
	r *bufio.Reader
}

func newRESP(conn io.ReadWriter) *resp { return &resp{conn, bufio.NewReader(conn)} }

func (c *resp) do(args ...string) (any, error) {
	out := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.w.Write(out); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *resp) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("a reply of %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	if kind == '+' {
		return text, nil
	}
	if kind == '-' {
		return nil, errors.New(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("a reply of %q", line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		all := make([]any, n)
		for i := range all {
			if all[i], err = c.read(); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("a reply of %q", line)
}
