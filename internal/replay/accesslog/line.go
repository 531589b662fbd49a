package accesslog

import (
	"errors"
	"strings"
	"unsafe"
)

// MaxLine is the most bytes a line may have.
const MaxLine = 64 << 10

// Line is what one line tells of a request. Text is empty where the line does not
// say. It is valid until the next line is parsed.
type Line struct {
	// Time is when, in microseconds since the Unix epoch, as exactly as the log
	// has it.
	Time int64
	// Address is the client's, as it is written: an IP address, or a name in old
	// logs. A port is cut off.
	Address string
	// User is who logged in.
	User string
	// Method and Target are words of the request line; Target is the path with its
	// query.
	Method, Target string
	// Host is the site, without a port.
	Host string
	// UserAgent is the client's software.
	UserAgent string
	// Status is the answer's, 0 where there was none.
	Status int

	// object is the line itself, where it is a JSON object.
	object []byte
}

// Path returns the target without its query.
func (l *Line) Path() string {
	if i := strings.IndexAny(l.Target, "?#"); i >= 0 {
		return l.Target[:i]
	}
	return l.Target
}

// errors of lines. They say what is wrong; the reader says where.
var (
	errLong   = errors.New("the line is longer than 64 KiB")
	errShort  = errors.New("the line ends too early")
	errTime   = errors.New("the time cannot be read")
	errStatus = errors.New("the status is not a number")
	errQuote  = errors.New("a quoted text does not end")
)

// fieldText returns b as a string that shares its bytes, empty for a lone hyphen.
func fieldText(b []byte) string {
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// withoutPort returns an address or a name without its port, and an IPv6 address without
// its brackets.
func withoutPort(s string) string {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		if address, _, ok := strings.Cut(rest, "]"); ok {
			return address
		}
		return s
	}
	if name, port, ok := strings.Cut(s, ":"); ok && !strings.Contains(port, ":") {
		return name
	}
	return s // IPv6 without a port has several colons
}
