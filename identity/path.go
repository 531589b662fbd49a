package identity

import "cmp"

// SentPath returns the path as it was sent, escaped and without the query: "/" for none,
// "/*" for the target *.
func (c *Caller) SentPath() string { return cmp.Or(c.f.Path, "/") }

// Path returns the canonical path, see [Canonical], or an *Error. What the request's
// route allows counts once [Routes.Find] was asked.
func (c *Caller) Path() (string, error) {
	c.readPath()
	if c.known&knownRefusal == 0 {
		c.known |= knownRefusal
		if c.pathErr == nil {
			c.pathErr = c.used.refusedBut(c.allowed)
		}
		if bad, ok := c.pathErr.(*Error); ok {
			c.path = ""
			c.r.reports.recordFailure(c, bad.counted)
		}
	}
	return c.path, c.pathErr
}

// readPath finds the canonical path as it is if all is allowed, once.
func (c *Caller) readPath() string {
	if c.known&knownPath == 0 {
		c.known |= knownPath
		if c.path = c.f.Path; !c.r.paths.isCanonical(c.path) {
			var b []byte
			b, c.used, c.pathErr = c.r.paths.appendPath(c.text.buf, c.path, nil)
			c.path, c.pathErr = c.text.keepResult(b, c.pathErr)
			if c.used&otherForms != 0 && c.pathErr == nil {
				c.readForms()
			}
		}
	}
	return c.path
}

// readForms finds what the path is to routers that decode less of it.
func (c *Caller) readForms() {
	n, last := 0, c.path
	for _, left := range leaves {
		b, _, _ := c.r.paths.appendPath(c.text.buf, c.f.Path, left) // it was read before
		if form := c.text.keepAppended(b); form != last {
			c.forms[n], last = form, form
			n++
		}
	}
}
