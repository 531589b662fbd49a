package httpapi

import (
	"slices"
	"strconv"
)

// enterContainer opens an array or object and reports whether it has anything in it.
func (r *reader) enterContainer(open, shut byte, want string) bool {
	if r.err != nil {
		return false
	}
	if r.skipSpace() != open {
		r.failKind(want)
		return false
	}
	if r.depth == maxDepth {
		r.failValue("nested too deep: at most " + strconv.Itoa(maxDepth) + " levels")
		return false
	}
	r.i++
	if r.skipSpace() == shut {
		r.i++
		return false
	}
	r.depth++
	return true
}

// moveToNext moves to the next element or member, or leaves.
func (r *reader) moveToNext(shut byte) bool {
	if r.err != nil {
		return false
	}
	switch r.skipSpace() {
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

// readArray reads an array: each must read one element.
func (r *reader) readArray(each func(index int)) {
	if !r.enterContainer('[', ']', "an array") {
		return
	}
	for n := 0; ; n++ {
		r.path[r.depth-1] = step{index: n}
		each(n)
		if !r.moveToNext(']') {
			return
		}
	}
}

// readObject reads an object: each must read the value of the named member. The
// name is valid until each returns.
func (r *reader) readObject(each func(name []byte)) {
	if !r.enterContainer('{', '}', "an object") {
		return
	}
	for {
		r.path[r.depth-1] = step{index: -1}
		if r.skipSpace() != '"' {
			r.failSyntax("a member's name in quotes")
			return
		}
		name := r.readQuoted()
		r.path[r.depth-1] = step{name: name}
		if r.err == nil && r.skipSpace() != ':' {
			r.failSyntax("':'")
		}
		if r.err != nil {
			return
		}
		r.i++
		each(name)
		if !r.moveToNext('}') {
			return
		}
	}
}

// unknown states that the member being read is not known.
func (r *reader) unknown(known string) {
	r.failValue("unknown field; known are " + known)
}

// refuseRepeat states an error if the member being read was there before: bit n of
// seen is its mark.
func (r *reader) refuseRepeat(seen *uint32, n uint) {
	if *seen&(1<<n) != 0 {
		r.failValue("is there twice")
	}
	*seen |= 1 << n
}

// failMissing states that the object just read lacks a member.
//
// Requires: no error was stated before.
func (r *reader) failMissing(name string) {
	r.failValue("is missing")
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
	r.readObject(func(name []byte) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == string(name) })
		if i < 0 {
			r.unknown(list)
			return
		}
		f := &fields[i]
		switch r.refuseRepeat(&seen, uint(i)); {
		case !f.must && r.readNull():
		case f.text != nil:
			*f.text = r.readString(int(f.least), int(f.most))
		default:
			*f.number = r.integer(f.least, f.most)
		}
	})
	r.expectEnd()
	for i, f := range fields {
		if r.err == nil && f.must && seen&(1<<i) == 0 {
			r.failMissing(f.name)
		}
	}
}
