package terminal

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// cleaner writes text that others wrote parts of (names of keys, reasons, lines of
// logs) so that no part of it reaches a terminal as a command: control characters
// but newline and tab, what changes the direction or the width of text, and bytes
// that are not UTF-8 are written as \u001b or \xff. That form is also right within
// JSON. Safe for concurrent use: a server's log and its statistics share one.
type cleaner struct {
	w  io.Writer
	mu sync.Mutex
	// held is the beginning of a character that the last write broke off. Requires: mu.
	held []byte
}

// Write implements io.Writer.
func (c *cleaner) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := p
	if len(c.held) > 0 {
		text = append(c.held, p...)
		c.held = nil
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		if b := text[0]; b < utf8.RuneSelf {
			if b >= ' ' && b != 0x7f || b == '\n' || b == '\t' {
				out = append(out, b)
			} else {
				out = fmt.Appendf(out, `\u%04x`, b)
			}
			text = text[1:]
			continue
		}
		if !utf8.FullRune(text) {
			c.held = append(c.held, text...)
			break
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case unicode.IsPrint(r) || unicode.Is(unicode.Zs, r):
			out = append(out, text[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	if _, err := c.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap returns what w cleans and paints for, if Wrap made it: for a terminal that the program
// itself drives.
func Unwrap(w io.Writer) io.Writer {
	if c, ok := w.(*cleaner); ok {
		w = c.w
	}
	if p, ok := w.(*painter); ok {
		w = p.w
	}
	return w
}
