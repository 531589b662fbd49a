package accesslog

import (
	"bytes"
	"time"
)

// clock reads times as they stand in logs. Lines of one minute have most of it in
// common, and are read by their seconds alone.
type clock struct {
	// minute is how the last time began, up to its minute, zone how it ended, and base
	// when that minute began, in microseconds since the Unix epoch.
	minute, zone []byte
	base         int64
}

// readMinute reads the minute of a time by a layout, if it is not that of the last one.
func (c *clock) readMinute(layout string, minute, zone []byte) error {
	if bytes.Equal(c.minute, minute) && bytes.Equal(c.zone, zone) {
		return nil
	}
	t, err := time.Parse(layout, string(minute)+string(zone))
	if err != nil {
		return errTime
	}
	c.minute, c.zone = append(c.minute[:0], minute...), append(c.zone[:0], zone...)
	c.base = t.UnixMicro()
	return nil
}

// readCLF reads 10/Oct/2000:13:55:36 -0700.
func (c *clock) readCLF(b []byte) (int64, error) {
	const upToMinute, length = len("10/Oct/2000:13:55"), len("10/Oct/2000:13:55:36 -0700")
	if len(b) != length || b[upToMinute] != ':' {
		return 0, errTime
	}
	if err := c.readMinute("02/Jan/2006:15:04 -0700", b[:upToMinute], b[20:]); err != nil {
		return 0, err
	}
	seconds, ok := readTwoDigits(b[18:])
	if !ok {
		return 0, errTime
	}
	return c.base + seconds*1e6, nil
}

// readISO reads 2016-04-15T20:17:00.310Z and its like, with a zone or Z.
func (c *clock) readISO(b []byte) (int64, error) {
	const upToMinute = len("2016-04-15T20:17")
	if len(b) < upToMinute+4 || b[upToMinute] != ':' || b[len(b)-1] != 'Z' {
		return readZoned(b)
	}
	if c.readMinute("2006-01-02T15:04Z", b[:upToMinute], b[len(b)-1:]) != nil {
		return readZoned(b)
	}
	seconds, ok := readTwoDigits(b[upToMinute+1:])
	us, isFraction := fraction(b[upToMinute+3 : len(b)-1])
	if !ok || !isFraction {
		return 0, errTime
	}
	return c.base + seconds*1e6 + us, nil
}

// readZoned reads what has a zone of its own.
func readZoned(b []byte) (int64, error) {
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z07:00", "02/Jan/2006:15:04:05 -0700"} {
		if t, err := time.Parse(layout, string(b)); err == nil {
			return t.UnixMicro(), nil
		}
	}
	return 0, errTime
}

// readUnix reads seconds since the epoch with a fraction, as nginx's $msec; more
// digits are milliseconds, microseconds or nanoseconds.
func readUnix(b []byte) (int64, error) {
	whole, rest, digits := int64(0), b, 0
	for len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9' && digits < 19 {
		whole = whole*10 + int64(rest[0]-'0')
		rest, digits = rest[1:], digits+1
	}
	us, ok := fraction(rest)
	switch {
	case digits == 0 || digits == 19 && len(rest) > 0 || !ok:
		return 0, errTime
	case digits <= 11:
		return whole*1e6 + us, nil
	case digits <= 14:
		return whole*1000 + us/1000, nil
	case digits <= 17:
		return whole, nil
	}
	return whole / 1000, nil
}

// readTwoDigits reads two digits below 61, for a leap second.
func readTwoDigits(b []byte) (int64, bool) {
	if len(b) < 2 {
		return 0, false
	}
	d, e := b[0]-'0', b[1]-'0'
	n := int64(d)*10 + int64(e)
	return n, d <= 9 && e <= 9 && n <= 60
}

// fraction reads .310 in microseconds, and nothing as zero.
func fraction(b []byte) (us int64, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != '.' && b[0] != ',' {
		return 0, false
	}
	unit := int64(100_000)
	for _, c := range b[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		us += int64(c-'0') * unit
		unit /= 10
	}
	return us, true
}
