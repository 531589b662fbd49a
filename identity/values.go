package identity

import "strings"

// value returns the value of a source, "" if the request has none.
func (c *Caller) value(s *source) (string, error) {
	switch s.kind {
	case fromAddress:
		return c.addressText(s.width), nil
	case fromUser:
		return c.User(), nil
	case fromTier:
		return c.Tier(), nil
	case fromClient:
		return c.client(s.width), nil
	case fromMethod:
		return c.Method(), c.methodErr
	case fromPath:
		p, err := c.Path()
		return c.fit(p), err
	case fromHost:
		if h := c.Host(); h != "" || c.hostErr != nil {
			return c.fit(h), c.hostErr
		}
		// HTTP/1.0 does without: nobody gets out of a limit on it that way.
		return "unknown", nil
	case fromHeader:
		return c.spelt(c.header(s.name), s.fold), nil
	case fromCookie:
		return c.spelt(c.cookie(s.name), s.fold), nil
	case fromQuery:
		return c.spelt(c.query(s.name), s.fold), nil
	case fromValue:
		return s.name, nil
	case fromAPIKey:
		return c.APIKey(), nil
	case fromJWT:
		return c.claim(s.name), nil
	case fromUnverifiedJWT:
		return c.fit(c.hearsay(s.name)), nil
	case fromParam:
		p, err := c.Path()
		v := segmentOf(p, s.segment)
		if s.fold {
			v = c.unescapeSegment(v)
		}
		return c.spelt(v, s.fold), err
	}
	panic("identity: no value of this kind")
}

// spelt returns v as a key, folded if that is asked for.
func (c *Caller) spelt(v string, fold bool) string {
	if fold && v != "" {
		v = c.foldText(v)
	}
	return c.fit(v)
}

// addressText returns the client's address as a key.
func (c *Caller) addressText(w width) string {
	s, _ := c.made(w.appendTo(c.buf, c.Address()), nil)
	return s
}

// client returns whom a limit is on: the user, else the API key, else the
// address. What it is stands before it, so that no user can be named like an
// address. A key counts if a file says that it is one: else whoever makes keys
// up would be a new client each time.
func (c *Caller) client(w width) string {
	var b []byte
	if u := c.User(); u != "" {
		b = append(append(c.buf, "user:"...), u...)
	} else if k := c.APIKey(); k != "" && c.keyRow != nil {
		b = append(append(c.buf, "api_key:"...), k...)
	} else {
		b = w.appendTo(append(c.buf, "address:"...), c.Address())
	}
	s, _ := c.made(b, nil)
	return s
}

// fit returns v, or what stands for it if it cannot be a key.
func (c *Caller) fit(v string) string {
	if fits(v) {
		return v
	}
	s, _ := c.made(appendLong(c.buf, []byte(v)), nil)
	return s
}

// header returns the value of a header. Several lines are joined by commas, as
// RFC 9110 §5.2 has it.
func (c *Caller) header(name string) string {
	switch lines := c.f.Header[name]; len(lines) {
	case 0:
		return ""
	case 1:
		return trimSpace(lines[0])
	default:
		return strings.Join(lines, ", ")
	}
}

// cookie returns the value of the first cookie of a name.
//
// Source: RFC 6265 §5.4, and §4.2.1 for its form.
func (c *Caller) cookie(name string) string {
	for _, line := range c.f.Header["Cookie"] {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			n, v, ok := strings.Cut(trimSpace(pair), "=")
			if !ok || trimSpace(n) != name {
				continue
			}
			return cookieValue(v)
		}
	}
	return ""
}

// cookieValue returns the value of a cookie as it is counted: without quotes.
func cookieValue(v string) string {
	v = trimSpace(v)
	if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
		v = v[1 : len(v)-1]
	}
	return v
}

// query returns the value of the first parameter of a name, decoded. A broken
// escape stands for itself.
func (c *Caller) query(name string) string {
	for rest := c.f.Query; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		n, v, _ := strings.Cut(pair, "=")
		if n == name || len(n) > len(name) && strings.ContainsAny(n, "%+") && c.unescape(n) == name {
			return c.unescape(v)
		}
	}
	return ""
}

// unescape decodes a name or value of a query.
func (c *Caller) unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	return c.decode(s, '+')
}

// decode decodes the escapes of s; space is the byte that stands for a space, if it is
// not the percent sign.
func (c *Caller) decode(s string, space byte) string {
	b := c.buf
	for i := 0; i < len(s); i++ {
		ch := s[i]
		switch {
		case ch == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			ch = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		case ch == space && ch != '%':
			ch = ' '
		}
		b = append(b, ch)
	}
	v, _ := c.made(b, nil)
	return v
}

// segmentOf returns a segment of a canonical path, counted from 0.
func segmentOf(path string, n int) string {
	if path == "" {
		return ""
	}
	rest, more := path[1:], true
	for ; more; n-- {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if n == 0 {
			return segment
		}
	}
	return ""
}
