package identity

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// targetBytes has the bytes that the target of a request may hold. RFC 3986 has
// no place for white space, control characters, quotes, angle brackets, a number
// sign and what is not ASCII; an HTTP/1.1 server may take a space for the end of
// the target (RFC 9112 §3), others a number sign. [ ] { } | \ ^ ` have no place
// either, but browsers send them as they are (WHATWG URL, "percent-encode sets"),
// and no server takes one for an end.
var targetBytes = newByteSet(func(c byte) bool { return c > ' ' && c <= '~' && strings.IndexByte("\"#<>", c) < 0 })

// isTarget reports whether s can be a part of a request's target.
func isTarget(s string) bool { return targetBytes.hasAll(s) }

// hasTarget reports whether all that is known of the target can be one.
func hasTarget(c *Caller) bool {
	rest, begins := strings.CutPrefix(c.target, c.f.Path)
	if begins && c.known&knownPath != 0 && c.pathErr == nil && c.path == c.f.Path {
		// A canonical path has no byte that a target may not hold.
		return isTarget(rest) && (strings.HasSuffix(rest, c.f.Query) || isTarget(c.f.Query))
	}
	if !isTarget(c.target) {
		return false
	}
	// Its parts need no look of their own.
	if c.target != "" && begins && strings.HasSuffix(c.target, c.f.Query) {
		return true
	}
	return isTarget(c.f.Path) && isTarget(c.f.Query)
}

// Check returns an *Error if two readers of the request may take it for two: its
// target holds what must be escaped, a credential is there more than once, in a
// form that is not its own, or under a name that some servers take for its own,
// or a field of a trusted proxy is there on two lines; and, of a request that
// SetHTTP was given, if its method or host has no canonical form. Err also reports a
// path without one.
func (c *Caller) Check() error {
	if c.known&knownForm == 0 {
		c.known |= knownForm
		if !c.believed && len(c.f.Header) > 0 {
			c.r.reports.reportUntrusted(c)
		}
		switch c.formErr = checkForm(c); c.formErr {
		case errCredential:
			c.r.reports.recordFailure(c, unclearCredential)
		case errProxyField:
			c.r.reports.recordFailure(c, unclearField)
		}
	}
	return c.formErr
}

// checkForm is Check, and finds the request's API key and token.
func checkForm(c *Caller) error {
	if !hasTarget(c) {
		return errTarget
	}
	if c.target != "" {
		c.Method()
		c.Host()
		switch {
		case c.methodErr != nil:
			return c.methodErr
		case c.hostErr != nil:
			return c.hostErr
		}
	}
	if err := c.r.fields.checkHeader(c.f.Header, c.believed); err != nil {
		return err
	}
	var err error
	if c.key, err = c.r.keys.findKey(c); err == nil {
		c.token, err = c.r.tokens.findToken(c)
	}
	return err
}

// singleField is the name of a header field that must be there at most once.
type singleField struct {
	name string // canonical
	// proxies: trusted peers say it, and what others say means nothing.
	proxies bool
	fault   *Error
}

// singleFields are the fields by which callers are known.
type singleFields []singleField

// newSingleFields returns those of r, whose other parts are set.
func newSingleFields(r *Resolver) (all singleFields) {
	add := func(name string, proxies bool, fault *Error) {
		for i := range all {
			if all[i].name == name {
				all[i].proxies = all[i].proxies && proxies
				return
			}
		}
		all = append(all, singleField{name, proxies, fault})
	}
	var from []claimant
	if r.keys != nil {
		from = append(from, r.keys.from...)
	}
	if r.tokens != nil {
		from = append(from, r.tokens.from...)
	}
	for _, f := range from {
		switch f.kind {
		case fromBearer:
			add("Authorization", false, errCredential)
		case fromHeader:
			add(f.name, false, errCredential)
		case fromCookie:
			add("Cookie", false, errCredential)
		}
	}
	if r.override != "" {
		add(r.override, false, errMethod)
	}
	for _, f := range slices.Concat(r.user, r.tier) {
		if f.kind == fromHeader {
			add(f.name, true, errProxyField)
		}
	}
	return all
}

// checkHeader reports a field that is there twice, or under another name that
// servers may take for its own, or that the client wants removed on the way
// (RFC 9110 §7.6.1).
func (fs singleFields) checkHeader(h http.Header, believed bool) error {
	if len(fs) == 0 {
		return nil
	}
	for key, lines := range h {
		for i := range fs {
			f := &fs[i]
			switch {
			case f.proxies && !believed:
			case key == f.name:
				if len(lines) > 1 {
					return f.fault
				}
			case !f.proxies && SameField(key, f.name): // of a proxy's fields look-alikes are nobody's
				return f.fault
			case key == "Connection" && slices.ContainsFunc(lines, func(line string) bool { return namesField(line, f.name) }):
				return f.fault
			}
		}
	}
	return nil
}

// DropTrailers deletes from trailers the fields that drop reports, and those that servers may
// take for one that says who the request is from, what its method is, or by which value a
// plan counted it. It counts a request that had any.
func (c *Caller) DropTrailers(trailers http.Header, drop func(field string) bool) {
	was := len(trailers)
	maps.DeleteFunc(trailers, func(key string, _ []string) bool { return drop(key) || c.readsField(key) })
	if len(trailers) < was {
		c.r.reports.failures[trailerDropped].Add(1)
	}
}

// readsField reports whether servers may take a field for one by which the request was counted.
func (c *Caller) readsField(field string) bool {
	known := slices.ContainsFunc(c.r.fields, func(f singleField) bool { return SameField(field, f.name) })
	for p := c.plan; p != nil && !known; p = p.also {
		for _, d := range p.forDomain(c.domain).descriptors {
			known = known || slices.ContainsFunc(d.entries, func(e plannedEntry) bool { return e.source.kind == fromHeader && SameField(field, e.source.name) })
		}
	}
	return known
}

// namesField reports whether a list of names of fields has one that is name.
func namesField(list, name string) bool {
	for list != "" {
		var one string
		one, list, _ = strings.Cut(list, ",")
		if SameField(trimSpace(one), name) {
			return true
		}
	}
	return false
}

// SameField reports whether two names of header fields are one name to some
// servers: those that hand fields on as variables (CGI, WSGI, PHP) ignore case,
// and read whatever is neither a letter nor a digit as an underscore.
func SameField(a, b string) bool { return sameName(a, b) }

// Err returns an *Error if the method, the host or the path has no canonical
// form, or for what Check finds, else nil.
func (c *Caller) Err() error {
	c.Method()
	c.Host()
	c.Path()
	for _, err := range [...]error{c.methodErr, c.hostErr, c.pathErr} {
		if err != nil {
			return err
		}
	}
	return c.Check()
}
