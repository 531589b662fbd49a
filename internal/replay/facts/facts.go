// Package facts turns lines of access logs into what rules are about: entries of
// descriptors, with the values that a node would give them.
package facts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/replay/accesslog"
)

// fact is a thing that a line tells, by the key of a descriptor's entry.
type fact struct {
	key string
	// path leads to the member of a JSON line, for facts that the user names.
	path []string
	of   func(r *Reader, l *accesslog.Line) string
}

// known are the facts that every log can tell.
var known = []fact{
	{key: "remote_address", of: (*Reader).address},
	{key: "method", of: func(_ *Reader, l *accesslog.Line) string { return l.Method }},
	{key: "path", of: (*Reader).canonicalPath},
	{key: "user", of: func(_ *Reader, l *accesslog.Line) string { return l.User }},
	{key: "host", of: func(_ *Reader, l *accesslog.Line) string { return strings.ToLower(l.Host) }},
	{key: "user_agent", of: func(_ *Reader, l *accesslog.Line) string { return l.UserAgent }},
}

// KnownKeys lists the keys that need no field of their own.
func KnownKeys() []string {
	var keys []string
	for _, f := range known {
		keys = append(keys, f.key)
	}
	return keys
}

// Reader reads the facts of one line after the other. Not safe for concurrent use.
type Reader struct {
	all    []fact
	values []string
	text   []byte
}

// New returns a reader of the known facts and of members of JSON lines, by the
// entry's key: "tenant" -> "request.headers.X-Tenant". Those come before what is
// known.
func New(fields map[string]string) (*Reader, error) {
	r := &Reader{all: slices.Clone(known), values: make([]string, len(known))}
	for key, path := range fields {
		if path == "" || key == "" {
			return nil, fmt.Errorf("field %q=%q: give an entry's key and the path of a JSON member, such as tenant=request.headers.X-Tenant", key, path)
		}
		r.replaceFact(fact{key: key, path: strings.Split(path, ".")})
	}
	return r, nil
}

// replaceFact puts a fact in the place of the one of its key.
func (r *Reader) replaceFact(f fact) {
	r.all = append(slices.DeleteFunc(r.all, func(k fact) bool { return k.key == f.key }), f)
	r.values = make([]string, len(r.all))
}

// FixValue gives the fact of a key the same value in every line.
func (r *Reader) FixValue(key, value string) {
	r.replaceFact(fact{key: key, of: func(*Reader, *accesslog.Line) string { return value }})
}

// Index returns where Value finds the fact of a key, and false if lines do not
// tell it.
func (r *Reader) Index(key string) (int, bool) {
	i := slices.IndexFunc(r.all, func(k fact) bool { return k.key == key })
	return i, i >= 0
}

// Read takes in the facts of a line.
func (r *Reader) Read(l *accesslog.Line) {
	r.text = r.text[:0]
	for i := range r.all {
		if k := &r.all[i]; k.of != nil {
			r.values[i] = k.of(r, l)
		} else {
			r.values[i], _ = l.Field(k.path...)
		}
	}
}

// Value returns the fact at a place, empty where the line does not tell it. It is
// valid until the next Read.
func (r *Reader) Value(index int) string { return r.values[index] }

// address returns the client that a node would take an address for. A name stands
// for itself.
func (r *Reader) address(l *accesslog.Line) string {
	if !strings.Contains(l.Address, ":") {
		return l.Address // IPv4 in its one form, or a name
	}
	a, err := netip.ParseAddr(l.Address)
	if err != nil {
		return l.Address
	}
	from := len(r.text)
	r.text = identity.AppendClient(r.text, a)
	return string(r.text[from:])
}

// canonicalPath returns the path as a node would see it, empty for what is none.
func (r *Reader) canonicalPath(l *accesslog.Line) string {
	p, err := identity.Canonical(l.Path(), identity.PathOptions{})
	if err != nil {
		return ""
	}
	return p
}
