package accesslog

import "bytes"

// scanner takes a line apart from left to right.
type scanner struct{ rest []byte }

// takeWord takes what stands before the next space.
func (s *scanner) takeWord() []byte {
	word, rest, _ := bytes.Cut(s.rest, []byte(" "))
	s.rest = rest
	return word
}

// bracketed takes what stands in brackets, and the space behind.
func (s *scanner) bracketed() ([]byte, bool) {
	if len(s.rest) == 0 || s.rest[0] != '[' {
		return nil, false
	}
	i := bytes.IndexByte(s.rest, ']')
	if i < 0 {
		return nil, false
	}
	w := s.rest[1:i]
	s.skipBytes(i + 1)
	return w, true
}

// takeQuoted takes what stands in quotes, and the space behind. A quote in the text
// stands behind a backslash.
func (s *scanner) takeQuoted() ([]byte, error) {
	if len(s.rest) == 0 || s.rest[0] != '"' {
		return nil, errShort
	}
	for from := 1; ; {
		i := bytes.IndexByte(s.rest[from:], '"')
		if i < 0 {
			return nil, errQuote
		}
		i += from
		slashes := 0
		for i-1-slashes > 0 && s.rest[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			w := s.rest[1:i]
			s.skipBytes(i + 1)
			return w, nil
		}
		from = i + 1
	}
}

// skipBytes drops n bytes and a space.
func (s *scanner) skipBytes(n int) { s.rest = bytes.TrimPrefix(s.rest[n:], []byte(" ")) }

// request takes a time in brackets, which read reads, the request line and the status.
func (s *scanner) request(l *Line, read func([]byte) (int64, error)) error {
	when, ok := s.bracketed()
	if !ok {
		return errTime
	}
	var err error
	if l.Time, err = read(when); err != nil {
		return err
	}
	request, err := s.takeQuoted()
	if err != nil {
		return err
	}
	l.request(request)
	l.Status, err = readStatus(s.takeWord())
	return err
}

// Combined reads the common and the combined log format, whatever follows them
// on the line, and Apache's vhost_combined, which begins with the host.
type Combined struct {
	// VHost says that each line begins with the host and its port.
	VHost bool
	clock clock
}

// Parse implements Format.
func (c *Combined) Parse(b []byte, l *Line) error {
	*l = Line{}
	s := scanner{b}
	if c.VHost {
		l.Host = withoutPort(fieldText(s.takeWord()))
	}
	l.Address = withoutPort(fieldText(s.takeWord()))
	s.takeWord() // ident
	// The user may hold spaces.
	i := bytes.Index(s.rest, []byte(" ["))
	if i < 0 {
		return errShort
	}
	l.User = fieldText(s.rest[:i])
	s.skipBytes(i)
	if err := s.request(l, c.clock.readCLF); err != nil {
		return err
	}
	s.takeWord() // bytes sent
	if len(s.rest) == 0 || s.rest[0] != '"' {
		return nil // the common format ends here
	}
	if _, err := s.takeQuoted(); err != nil { // the referrer
		return err
	}
	agent, err := s.takeQuoted()
	if err == errShort {
		return nil // what follows is somebody's own
	}
	l.UserAgent = fieldText(agent)
	return err
}

// request takes a request line apart. One that is not of HTTP is told as a method
// alone.
func (l *Line) request(b []byte) {
	method, target, ok := bytes.Cut(b, []byte(" "))
	if l.Method = fieldText(method); !ok {
		return
	}
	// HTTP/0.9 has no protocol, and a target may hold spaces all the same.
	if i := bytes.LastIndexByte(target, ' '); i >= 0 && bytes.HasPrefix(target[i+1:], []byte("HTTP/")) {
		target = target[:i]
	}
	l.Target = fieldText(target)
}

// readStatus reads a status, or a hyphen for none.
func readStatus(b []byte) (int, error) {
	switch {
	case len(b) == 1 && (b[0] == '-' || b[0] == '0'): // 0 is Envoy's, where the client went away
		return 0, nil
	case len(b) != 3:
		return 0, errStatus
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, errStatus
		}
		n = n*10 + int(c-'0')
	}
	return n, nil
}
