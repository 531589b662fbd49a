package accesslog

import "bytes"

// Envoy reads Envoy's default text format, and that of Istio's proxies, which has
// three more fields in the middle and five more at the end.
type Envoy struct{ clock clock }

// Parse implements Format.
func (e *Envoy) Parse(b []byte, l *Line) error {
	*l = Line{}
	s := scanner{b}
	err := s.request(l, e.clock.readISO)
	if err != nil {
		return err
	}
	s.takeWord() // flags
	istio := len(s.rest) > 0 && (s.rest[0] < '0' || s.rest[0] > '9')
	if istio {
		s.takeWord() // details of the response code
		s.takeWord() // details of the connection's end
		if _, err := s.takeQuoted(); err != nil {
			return err // why the upstream failed
		}
	}
	s.takeWord() // bytes received
	s.takeWord() // bytes sent
	s.takeWord() // duration
	s.takeWord() // the upstream's time
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
	s.skipBytes(end + 1)
	l.UserAgent = fieldText(agent)
	l.Host = withoutPort(fieldText(last[1]))
	l.Address = withoutPort(fieldText(lastAddress(forwarded)))
	if istio {
		s.takeWord() // the upstream's cluster
		s.takeWord() // where the upstream was reached from
		s.takeWord() // where the client reached us
		if peer := fieldText(s.takeWord()); l.Address == "" {
			l.Address = withoutPort(peer)
		}
	}
	return nil
}

// between stands between two texts in quotes.
var between = []byte(`" "`)

// lastAddress returns the last address of a list: the one that the proxy saw, and
// nobody else wrote.
func lastAddress(list []byte) []byte {
	return bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:])
}
