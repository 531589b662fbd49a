package httpapi

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir/answer"
)

// maxDepth is how deep arrays and objects may nest.
const maxDepth = 16

// inputError is what is wrong with a request, and where.
type inputError struct {
	detail string
	// pointer is a JSON pointer to what is wrong in the body, from # on, or, from ? on, the
	// name of a parameter, query for all of them; else the name of a header field.
	pointer string
}

func (e *inputError) Error() string {
	if e.pointer == "#" {
		return "the body: " + e.detail
	}
	return strings.TrimPrefix(e.pointer, "?") + ": " + e.detail
}

// fieldError returns e as a problem document has it.
func (e *inputError) fieldError() answer.FieldError {
	if name, ok := strings.CutPrefix(e.pointer, "?"); ok {
		return answer.FieldError{Detail: e.detail, Parameter: name}
	}
	if !strings.HasPrefix(e.pointer, "#") {
		return answer.FieldError{Detail: e.detail, Header: e.pointer}
	}
	return answer.FieldError{Detail: e.detail, Pointer: e.pointer}
}

// reader reads one JSON text. It is strict where readers differ, so that no
// two parties see different clients in one body: names are matched exactly and
// may not repeat, and what is not valid UTF-8, such as half a surrogate pair,
// is an error. Integers are exact.
//
// The first error sticks: after it every method returns a zero value, and the
// callbacks of array and object are not called again.
//
// Source: RFC 8259.
type reader struct {
	b   []byte
	i   int
	err *inputError
	// unescaped holds the strings that were not in b as they are.
	unescaped []byte
	// path is where the value being read is: names of members, positions in
	// arrays.
	path  [maxDepth]step
	depth int
}

// step is a member's name, or a position where name is nil.
type step struct {
	name  []byte
	index int
}

// reset makes r ready to read b.
func (r *reader) reset(b []byte) {
	*r = reader{b: b, unescaped: r.unescaped[:0]}
}

// failValue states what is wrong with the value being read.
func (r *reader) failValue(detail string) {
	if r.err == nil {
		r.err = &inputError{detail: detail, pointer: r.pointer()}
	}
}

// firstError returns the first error, nil for none.
func (r *reader) firstError() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// failSyntax states that the text is not JSON.
func (r *reader) failSyntax(want string) {
	if r.err != nil {
		return
	}
	got := "the end of the body"
	if r.i < len(r.b) {
		got = strconv.QuoteToASCII(string(r.b[r.i : r.i+1]))
		if c, n := utf8.DecodeRune(r.b[r.i:]); n > 1 {
			got = strconv.QuoteRuneToASCII(c)
		}
	}
	r.failValue("not valid JSON: want " + want + " at byte " + strconv.Itoa(r.i) + ", got " + got)
}

// pointer returns where r is as a JSON pointer in a URI fragment, RFC 6901 §6.
func (r *reader) pointer() string {
	p := []byte{'#'}
	for _, at := range r.path[:min(r.depth, maxDepth)] {
		if at.name == nil && at.index < 0 { // before a member's name
			break
		}
		p = append(p, '/')
		if at.name == nil {
			p = strconv.AppendInt(p, int64(at.index), 10)
			continue
		}
		for _, c := range at.name[:min(len(at.name), 64)] {
			switch {
			case c == '~':
				p = append(p, "~0"...)
			case c == '/':
				p = append(p, "~1"...)
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
				p = append(p, c)
			default:
				p = append(p, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			}
		}
	}
	return string(p)
}

// skipSpace skips white space and returns the next byte, or 0 at the end.
func (r *reader) skipSpace() byte {
	for r.i < len(r.b) {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\n', '\r':
			r.i++
		default:
			return c
		}
	}
	return 0
}

// expectEnd checks that nothing follows the value.
func (r *reader) expectEnd() {
	r.skipSpace()
	if r.err == nil && r.i < len(r.b) {
		r.failSyntax("nothing more")
	}
}

// readNull reads a null if there is one.
func (r *reader) readNull() bool {
	if r.err != nil || r.skipSpace() != 'n' {
		return false
	}
	r.literal("null")
	return r.err == nil
}

func (r *reader) literal(word string) {
	if len(r.b)-r.i < len(word) || string(r.b[r.i:r.i+len(word)]) != word {
		r.failSyntax(word)
		return
	}
	r.i += len(word)
}

// nextKind names the value that comes next.
func (r *reader) nextKind() string {
	switch c := r.skipSpace(); {
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == 't', c == 'f':
		return "true or false"
	case c == 'n':
		return "null"
	case c == '-', c >= '0' && c <= '9':
		return "a number"
	}
	return ""
}

// failKind states that another kind of value was wanted.
func (r *reader) failKind(want string) {
	if r.err != nil {
		return
	}
	if got := r.nextKind(); got != "" {
		r.failValue("must be " + want + ", is " + got)
		return
	}
	r.failSyntax(want)
}
