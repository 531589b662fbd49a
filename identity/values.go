package identity

import (
	"net/http"
	"strings"
)

// value returns the value of a source, "" if the request has none.
func (s *source) value(c *Caller) (string, error) {
	switch s.kind {
	case fromAddress:
		return c.text.keep(s.width.appendTo(c.text.buf, c.Address())), nil
	case fromUser:
		return c.User(), nil
	case fromTier:
		return c.Tier(), nil
	case fromClient:
		return client(c, s.width), nil
	case fromMethod:
		return c.Method(), c.methodErr
	case fromPath:
		p, err := c.Path()
		return c.text.fit(p), err
	case fromHost:
		if h := c.Host(); h != "" || c.hostErr != nil {
			return c.text.fit(h), c.hostErr
		}
		// HTTP/1.0 does without: nobody gets out of a limit on it that way.
		return "unknown", nil
	case fromHeader:
		return c.text.spell(header(c.f.Header, s.name), s.fold), nil
	case fromCookie:
		return c.text.spell(cookie(c.f.Header, s.name), s.fold), nil
	case fromQuery:
		return c.text.spell(c.text.parameter(c.f.Query, s.name), s.fold), nil
	case fromValue:
		return s.name, nil
	case fromAPIKey:
		return c.APIKey(), nil
	case fromJWT:
		return c.r.tokens.claim(c, s.name), nil
	case fromUnverifiedJWT:
		return c.text.fit(unverifiedClaim(c, s.name)), nil
	case fromParam:
		p, err := c.Path()
		v := segmentOf(p, s.segment)
		if s.fold {
			v = c.text.unescapeSegment(v)
		}
		return c.text.spell(v, s.fold), err
	}
	panic("identity: no value of this kind")
}

// client returns whom a limit is on: the user, else the API key, else the
// address. What it is stands before it, so that no user can be named like an
// address. A key counts if a file says that it is one: else whoever makes keys
// up would be a new client each time.
func client(c *Caller, w width) string {
	var b []byte
	if u := c.User(); u != "" {
		b = append(append(c.text.buf, "user:"...), u...)
	} else if k := c.APIKey(); k != "" && c.keyRow != nil {
		b = append(append(c.text.buf, "api_key:"...), k...)
	} else {
		b = w.appendTo(append(c.text.buf, "address:"...), c.Address())
	}
	return c.text.keep(b)
}

// cookie returns the value of the first cookie of a name.
//
// Source: RFC 6265 §5.4, and §4.2.1 for its form.
func cookie(h http.Header, name string) string {
	for _, line := range h["Cookie"] {
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
