package identity

import (
	"strings"
)

// readValue returns the value of a source, "" if the request has none.
func (s *source) readValue(c *Caller) (string, error) {
	switch s.kind {
	case fromAddress:
		return c.text.keepAppended(s.width.appendTo(c.text.buf, c.Address())), nil
	case fromUser:
		return c.User(), nil
	case fromTier:
		return c.Tier(), nil
	case fromClient:
		return clientKey(c, s.width), nil
	case fromMethod:
		return c.Method(), c.methodErr
	case fromPath, fromParam:
		p, err := c.Path()
		return s.valueInPath(c, p), err
	case fromHost:
		if h := c.Host(); h != "" || c.hostErr != nil {
			return c.text.fitToKey(h), c.hostErr
		}
		// HTTP/1.0 does without: nobody gets out of a limit on it that way.
		return "unknown", nil
	case fromHeader, fromCookie, fromQuery:
		return "", nil // it may have several: see appendReadings
	case fromValue:
		return s.name, nil
	case fromAPIKey:
		return c.APIKey(), nil
	case fromJWT:
		return c.r.tokens.readClaim(c, s.name), nil
	case fromUnverifiedJWT:
		return c.text.fitToKey(unverifiedClaim(c, s.name)), nil
	}
	panic("identity: no value of this kind")
}

// valueInPath returns the value of a source of the path, if that is path.
func (s *source) valueInPath(c *Caller, path string) string {
	if s.kind == fromPath {
		return c.text.fitToKey(path)
	}
	v := segmentOf(path, s.segment)
	if s.fold {
		v = c.text.unescapeSegment(v)
	}
	return c.text.spellKey(v, s.fold)
}

// clientKey returns whom a limit is on: the user, else the API key, else the
// address. What it is stands before it, so that no user can be named like an
// address. A key counts if a file says that it is one: else whoever makes keys
// up would be a new client each time.
func clientKey(c *Caller, w width) string {
	var b []byte
	if u := c.User(); u != "" {
		b = append(append(c.text.buf, "user:"...), u...)
	} else if k := c.APIKey(); k != "" && c.keyRow != nil {
		b = append(append(c.text.buf, "api_key:"...), k...)
	} else {
		b = w.appendTo(append(c.text.buf, "address:"...), c.Address())
	}
	return c.text.keepAppended(b)
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
