package resp

import (
	"bytes"
	"fmt"
)

// A protocolError ends a connection. Its text is Redis's where Redis has one.
type protocolError string

// Error implements error.
func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// bounds are those on a command.
type bounds struct{ args, bulk, command int }

var (
	lateBounds  = bounds{maxArgs, maxBulk, maxCommand}
	earlyBounds = bounds{maxEarlyArgs, maxEarlyBulk, maxEarlyCommand}
)

// A span is where an argument stands in its command.
type span struct{ from, to int32 }

// A command is what a client sent, in place.
type command struct {
	raw  []byte
	args []span
	// inline: it came as a line of words.
	inline bool
}

// argument returns the i-th argument; the 0th is the command's name.
func (c *command) argument(i int) []byte { return c.raw[c.args[i].from:c.args[i].to] }

// A parser reads commands that may come in pieces. It keeps where it is, so that
// no byte is looked at twice. Positions count from the command's beginning.
type parser struct {
	args   []span
	pos    int32 // what was read of the command
	left   int32 // arguments still to come, once the head is known
	bulk   int32 // length of the argument to come, -1 while it is not known
	began  bool  // the head is known
	inline bool
}

// reset makes p ready for the next command.
func (p *parser) reset() {
	if cap(p.args) > 64 {
		p.args = nil // few clients send more than once
	}
	*p = parser{args: p.args[:0]}
}

// isFresh reports whether nothing of a command was read.
func (p *parser) isFresh() bool { return !p.began && p.pos == 0 }

// parseCommand reads on in b, which begins where the command does. It reports whether
// the command is complete: p.pos bytes long. One without arguments is to be left
// out.
func (p *parser) parseCommand(b []byte, most bounds) (bool, error) {
	if !p.began {
		if len(b) == 0 {
			return false, nil
		}
		if b[0] != '*' {
			return p.parseLine(b, most)
		}
		n, ok, err := p.parseHeader(b, "too big mbulk count string", "invalid multibulk length")
		if !ok || err != nil {
			return false, err
		}
		if int(n) > most.args {
			if most.args < maxArgs {
				return false, protocolError("unauthenticated multibulk length")
			}
			return false, protocolError("invalid multibulk length")
		}
		p.began, p.left, p.bulk = true, max(n, 0), -1
	}
	for p.left > 0 {
		if p.bulk < 0 {
			if int(p.pos) == len(b) {
				return false, nil
			}
			if c := b[p.pos]; c != '$' {
				return false, protocolError(fmt.Sprintf("expected '$', got '%c'", printable(c)))
			}
			n, ok, err := p.parseHeader(b, "too big bulk count string", "invalid bulk length")
			if !ok || err != nil {
				return false, err
			}
			switch {
			case n < 0:
				return false, protocolError("invalid bulk length")
			case int(n) > most.bulk && most.bulk < maxBulk:
				return false, protocolError("unauthenticated bulk length")
			case int(n) > most.bulk, int(p.pos+n)+2 > most.command:
				return false, protocolError("invalid bulk length")
			}
			p.bulk = n
		}
		end := p.pos + p.bulk
		if int(end)+2 > len(b) {
			return false, nil
		}
		p.args = append(p.args, span{p.pos, end})
		// Redis does not look at the two bytes either.
		p.pos, p.bulk, p.left = end+2, -1, p.left-1
	}
	return true, nil
}

// printable returns c, or a question mark in place of what would break a line.
func printable(c byte) byte {
	if c < ' ' || c > '~' {
		return '?'
	}
	return c
}

// maxHeader is the longest number, with its first byte and the end of its line.
const maxHeader = 32

// parseHeader reads a byte that says what follows, a number and the end of the line,
// at p.pos, and reports false if there is not all of it yet.
func (p *parser) parseHeader(b []byte, long, wrong string) (int32, bool, error) {
	b = b[p.pos:]
	// Most are one or two digits.
	i, n, negative := 1, int64(0), false
	if len(b) > 1 && b[1] == '-' {
		negative = true
		i++
	}
	digits := i
	for ; i < len(b) && i < maxHeader; i++ {
		c := b[i] - '0'
		if c > 9 {
			break
		}
		if n = n*10 + int64(c); n > 1<<31-1 {
			n = 1<<31 - 1 // too much for any bound
		}
	}
	switch {
	case i == maxHeader:
		return 0, false, protocolError(long)
	case i == len(b):
		return 0, false, nil
	case b[i] != '\r' || i == digits:
		return 0, false, protocolError(wrong)
	case i+1 == len(b):
		return 0, false, nil
	case b[i+1] != '\n':
		return 0, false, protocolError(wrong)
	}
	if negative {
		n = -n
	}
	p.pos += int32(i) + 2
	return int32(n), true, nil
}

// parseLine reads a command that a person types: words on a line.
func (p *parser) parseLine(b []byte, most bounds) (bool, error) {
	end := bytes.IndexByte(b[p.pos:], '\n')
	typed := b[p.pos:]
	if end >= 0 {
		typed = bytes.TrimSuffix(typed[:end], []byte("\r"))
	}
	if i := bytes.IndexFunc(typed, func(c rune) bool { return c < ' ' || c > '~' }); i >= 0 && (end >= 0 || typed[i] != '\r' || i < len(typed)-1) {
		return false, protocolError("a byte that nobody types in an inline request") // TLS, and others
	}
	if end < 0 || int(p.pos)+end >= most.bulk {
		if len(b) >= most.bulk {
			return false, protocolError("too big inline request")
		}
		p.pos = int32(len(bytes.TrimSuffix(b, []byte("\r")))) // which is looked at again with what follows
		return false, nil
	}
	line := b[:int(p.pos)+end]
	p.pos = int32(len(line)) + 1
	p.inline = true
	return true, p.splitWords(line, most)
}

// splitWords cuts a line into words between spaces. A quote, which Redis reads there,
// is an error: a word must not mean another key here.
func (p *parser) splitWords(line []byte, most bounds) error {
	for i := 0; i < len(line); i++ {
		from := i
		for i < len(line) && !isSpace(line[i]) {
			if line[i] == '"' || line[i] == '\'' {
				return protocolError("quotes in an inline command")
			}
			i++
		}
		switch {
		case from == i:
			continue
		case len(p.args) == most.args:
			return protocolError("invalid multibulk length")
		}
		p.args = append(p.args, span{int32(from), int32(i)})
	}
	return nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\r' }
