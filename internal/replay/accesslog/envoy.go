package accesslog

import "bytes"

// Envoy reads Envoy's default text format, and that of Istio's proxies, which has
// three more fields in the middle and five more at the end.
type Envoy struct{ clock clock }

// Parse implements Format.
func (e *Envoy) Parse(b []byte, l *Line) error {
	*l = Line{}
	s := scanner{b}
	err := s.request(l, e.clock.iso)
	if err != nil {
		return err
	}
	s.word() // flags
	istio := len(s.rest) > 0 && (s.rest[0] < '0' || s.rest[0] > '9')
	if istio {
		s.word() // details of the response code
		s.word() // details of the connection's end
		if _, err := s.quoted(); err != nil {
			return err // why the upstream failed
		}
	}
	s.word() // bytes received
	s.word() // bytes sent
	s.word() // duration
	s.word() // the upstream's time
	// Forwarded for, user agent, request id, authority, upstream. Envoy escapes nothing,
	// so that only the second may hold what stands between two.
	end := bytes.LastIndexByte(s.rest, '"')
	if end < 1 || s.rest[0] != '"' {
		return errShort
	}
	forwarded, agent, _ := bytes.Cut(s.rest[1:end], between)
	var last [3][]byte
	for i := range last {
		at := bytes.LastIndex(agent, between)
		if at < 0 {
			return errShort
		}
		agent, last[i] = agent[:at], agent[at+len(between):]
	}
	s.skip(end + 1)
	l.UserAgent = text(agent)
	l.Host = host(text(last[1]))
	l.Address = host(text(lastOf(forwarded)))
	if istio {
		s.word() // the upstream's cluster
		s.word() // where the upstream was reached from
		s.word() // where the client reached us
		if peer := text(s.word()); l.Address == "" {
			l.Address = host(peer)
		}
	}
	return nil
}

// between stands between two texts in quotes.
var between = []byte(`" "`)

// lastOf returns the last address of a list: the one that the proxy saw, and
// nobody else wrote.
func lastOf(list []byte) []byte {
	return bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:])
}
