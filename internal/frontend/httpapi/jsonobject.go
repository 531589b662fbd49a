package httpapi

import (
	"slices"
	"strconv"
)

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
