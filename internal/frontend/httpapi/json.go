package httpapi

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may nest.
const maxDepth = 16

// inputError is what is wrong with a body, and where.
type inputError struct {
	detail  string
	pointer string
}

func (e *inputError) Error() string {
	if e.pointer == "#" {
		return "the body: " + e.detail
	}
	return e.pointer + ": " + e.detail
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

// fail states what is wrong with the value being read.
func (r *reader) fail(detail string) {
	if r.err == nil {
		r.err = &inputError{detail: detail, pointer: r.pointer()}
	}
}

// fault returns the first error, nil for none.
func (r *reader) fault() error {
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
	r.fail("not valid JSON: want " + want + " at byte " + strconv.Itoa(r.i) + ", got " + got)
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

// space skips white space and returns the next byte, or 0 at the end.
func (r *reader) space() byte {
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

// end checks that nothing follows the value.
func (r *reader) end() {
	r.space()
	if r.err == nil && r.i < len(r.b) {
		r.failSyntax("nothing more")
	}
}

// null reads a null if there is one.
func (r *reader) null() bool {
	if r.err != nil || r.space() != 'n' {
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

// kind names the value that comes next.
func (r *reader) kind() string {
	switch c := r.space(); {
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
	if got := r.kind(); got != "" {
		r.fail("must be " + want + ", is " + got)
		return
	}
	r.failSyntax(want)
}

// enter opens an array or object and reports whether it has anything in it.
func (r *reader) enter(open, shut byte, want string) bool {
	if r.err != nil {
		return false
	}
	if r.space() != open {
		r.failKind(want)
		return false
	}
	if r.depth == maxDepth {
		r.fail("nested too deep: at most " + strconv.Itoa(maxDepth) + " levels")
		return false
	}
	r.i++
	if r.space() == shut {
		r.i++
		return false
	}
	r.depth++
	return true
}

// more moves to the next element or member, or leaves.
func (r *reader) more(shut byte) bool {
	if r.err != nil {
		return false
	}
	switch r.space() {
	case ',':
		r.i++
		return true
	case shut:
		r.i++
		r.depth--
		return false
	}
	r.failSyntax("',' or '" + string(rune(shut)) + "'")
	return false
}

// array reads an array: each must read one element.
func (r *reader) array(each func(index int)) {
	if !r.enter('[', ']', "an array") {
		return
	}
	for n := 0; ; n++ {
		r.path[r.depth-1] = step{index: n}
		each(n)
		if !r.more(']') {
			return
		}
	}
}

// object reads an object: each must read the value of the named member. The
// name is valid until each returns.
func (r *reader) object(each func(name []byte)) {
	if !r.enter('{', '}', "an object") {
		return
	}
	for {
		r.path[r.depth-1] = step{index: -1}
		if r.space() != '"' {
			r.failSyntax("a member's name in quotes")
			return
		}
		name := r.text()
		r.path[r.depth-1] = step{name: name}
		if r.err == nil && r.space() != ':' {
			r.failSyntax("':'")
		}
		if r.err != nil {
			return
		}
		r.i++
		each(name)
		if !r.more('}') {
			return
		}
	}
}

// unknown states that the member being read is not known.
func (r *reader) unknown(known string) {
	r.fail("unknown field; known are " + known)
}

// once states an error if the member being read was there before: bit n of
// seen is its mark.
func (r *reader) once(seen *uint32, n uint) {
	if *seen&(1<<n) != 0 {
		r.fail("is there twice")
	}
	*seen |= 1 << n
}

// failMissing states that the object just read lacks a member.
//
// Requires: no error was stated before.
func (r *reader) failMissing(name string) {
	r.fail("is missing")
	r.err.pointer += "/" + name
}

// field is a member of a small body: a text, whose bounds are in bytes, or a number.
type field struct {
	name        string
	text        *string
	number      *int64
	least, most int64
	must        bool // else it may be missing, or null
}

// readFields reads a body that is an object of fields, whose names are listed.
func readFields(r *reader, list string, fields []field) {
	var seen uint32
	r.object(func(name []byte) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == string(name) })
		if i < 0 {
			r.unknown(list)
			return
		}
		f := &fields[i]
		switch r.once(&seen, uint(i)); {
		case !f.must && r.null():
		case f.text != nil:
			*f.text = r.str(int(f.least), int(f.most))
		default:
			*f.number = r.integer(f.least, f.most)
		}
	})
	r.end()
	for i, f := range fields {
		if r.err == nil && f.must && seen&(1<<i) == 0 {
			r.failMissing(f.name)
		}
	}
}
