package accesslog

import (
	"bytes"
	"errors"

	"github.com/buger/jsonparser"
)

// field is what a member of a JSON object is about.
type field uint8

const (
	fieldTime field = iota + 1
	fieldAddress
	fieldUser
	fieldMethod
	fieldTarget
	fieldHost
	fieldAgent
	fieldStatus
	fieldRequest // a request line, or an object that has the rest
	fieldHeaders
)

// members says what members are about, by the names that they have with Caddy,
// Traefik, Envoy and in the usual formats of nginx. Where a line has several of
// one meaning the first that tells something counts.
var members = map[string]field{
	"ts": fieldTime, "time": fieldTime, "timestamp": fieldTime, "@timestamp": fieldTime, "start_time": fieldTime,
	"StartUTC": fieldTime, "StartLocal": fieldTime, "msec": fieldTime, "time_iso8601": fieldTime, "time_local": fieldTime,

	"client_ip": fieldAddress, "remote_ip": fieldAddress, "remote_addr": fieldAddress, "remote_address": fieldAddress,
	"ClientHost": fieldAddress, "downstream_remote_address": fieldAddress, "ip": fieldAddress, "clientip": fieldAddress,

	"user_id": fieldUser, "remote_user": fieldUser, "user": fieldUser, "ClientUsername": fieldUser,
	"method": fieldMethod, "request_method": fieldMethod, "RequestMethod": fieldMethod,
	"uri": fieldTarget, "request_uri": fieldTarget, "RequestPath": fieldTarget, "path": fieldTarget, "url": fieldTarget,
	"host": fieldHost, "http_host": fieldHost, "authority": fieldHost, "RequestHost": fieldHost, "server_name": fieldHost,
	"user_agent": fieldAgent, "http_user_agent": fieldAgent, "request_User-Agent": fieldAgent, "agent": fieldAgent,
	"status": fieldStatus, "response_code": fieldStatus, "DownstreamStatus": fieldStatus,
	"request": fieldRequest,
	"headers": fieldHeaders,
}

// JSON reads one JSON object a line.
type JSON struct {
	clock clock
	// scratch holds the texts of a line that were written with escapes.
	scratch []byte
	line    *Line
	// texts are what fields fill that are text.
	texts [fieldHeaders + 1]*string
	depth int
	err   error
}

var errJSON = errors.New("the line is not a JSON object")

// Parse implements Format.
func (j *JSON) Parse(b []byte, l *Line) error {
	*l = Line{object: b}
	j.line, j.scratch, j.err, j.depth = l, j.scratch[:0], nil, 0
	j.texts = [...]*string{
		fieldAddress: &l.Address, fieldUser: &l.User, fieldMethod: &l.Method, fieldTarget: &l.Target,
		fieldHost: &l.Host, fieldAgent: &l.UserAgent, fieldHeaders: nil,
	}
	// What follows the object is not looked at, and neither is what the parser
	// skips: a line that is good for a request is good.
	if err := jsonparser.ObjectEach(b, j.readMember); err != nil {
		if j.err != nil {
			return j.err
		}
		return errJSON
	}
	if l.Time == 0 {
		return errTime
	}
	return nil
}

// readMember takes in one member of an object.
func (j *JSON) readMember(key, value []byte, kind jsonparser.ValueType, _ int) error {
	l := j.line
	f := members[string(key)]
	if kind == jsonparser.Object {
		if (f == fieldRequest || f == fieldHeaders) && j.depth < 2 {
			j.depth++
			err := jsonparser.ObjectEach(value, j.readMember)
			j.depth--
			return err
		}
		return nil
	}
	if kind == jsonparser.Array && j.depth == 2 && bytes.EqualFold(key, []byte("User-Agent")) {
		if first, t, _, err := jsonparser.Get(value, "[0]"); err == nil && t == jsonparser.String {
			j.setIfEmpty(&l.UserAgent, first)
		}
		return nil
	}
	if kind != jsonparser.String && kind != jsonparser.Number {
		return nil
	}
	switch f {
	case fieldTime:
		if l.Time == 0 {
			l.Time, j.err = j.readTime(value, kind)
		}
	case fieldStatus:
		if l.Status == 0 {
			l.Status, j.err = readStatus(value)
		}
	case fieldRequest:
		if l.Method == "" {
			l.request(j.unescape(value))
		}
	default:
		if to := j.texts[f]; to != nil && j.setIfEmpty(to, value) && (f == fieldAddress || f == fieldHost) {
			*to = withoutPort(*to)
		}
	}
	return j.err
}

func (j *JSON) readTime(value []byte, kind jsonparser.ValueType) (int64, error) {
	if kind == jsonparser.Number {
		return readUnix(value)
	}
	if len(value) > 2 && value[2] == '/' {
		return j.clock.readCLF(value)
	}
	if t, err := j.clock.readISO(value); err == nil {
		return t, nil
	}
	return readUnix(value)
}

// setIfEmpty fills a text that is still empty, and reports whether it did.
func (j *JSON) setIfEmpty(to *string, value []byte) bool {
	if *to != "" {
		return false
	}
	*to = fieldText(j.unescape(value))
	return *to != ""
}

// unescape returns a string's bytes without escapes. One with escapes that mean
// nothing stands as it is.
func (j *JSON) unescape(value []byte) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return value
	}
	// Not append: what was returned for this line must stay where it is.
	if cap(j.scratch)-len(j.scratch) < len(value) {
		j.scratch = make([]byte, 0, max(4096, 2*len(value)))
	}
	from := len(j.scratch)
	out, err := jsonparser.Unescape(value, j.scratch[from:from:cap(j.scratch)])
	if err != nil {
		return value
	}
	j.scratch = j.scratch[:from+len(out)]
	return out
}

// Field returns the member of a JSON line at a path such as "request",
// "headers", "X-Api-Key"; of an array, its first element. It returns false where
// the line has none, or is not JSON.
func (l *Line) Field(path ...string) (string, bool) {
	if l.object == nil {
		return "", false
	}
	value, kind, _, err := jsonparser.Get(l.object, path...)
	if err == nil && kind == jsonparser.Array {
		value, kind, _, err = jsonparser.Get(value, "[0]")
	}
	if err != nil || kind != jsonparser.String && kind != jsonparser.Number && kind != jsonparser.Boolean {
		return "", false
	}
	if kind == jsonparser.String {
		if s, err := jsonparser.ParseString(value); err == nil {
			return s, true
		}
	}
	return string(value), true
}
