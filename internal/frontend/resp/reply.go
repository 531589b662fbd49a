package resp

import "strconv"

// Replies are appended to a buffer. Those that RESP3 has a form of its own for
// take the version: 2 or 3.

func appendInt(b []byte, n int64) []byte {
	b = append(b, ':')
	b = strconv.AppendInt(b, n, 10)
	return append(b, '\r', '\n')
}

func appendBulk[T string | []byte](b []byte, text T) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, '\r', '\n')
	b = append(b, text...)
	return append(b, '\r', '\n')
}

func appendSimple(b []byte, text string) []byte {
	b = append(b, '+')
	b = append(b, text...)
	return append(b, '\r', '\n')
}

// appendError appends an error, whose text begins with its code. What would end
// the line becomes a space: parts of it may be the client's.
func appendError(b []byte, text string) []byte {
	b = append(b, '-')
	for i := range len(text) {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		b = append(b, c)
	}
	return append(b, '\r', '\n')
}

func appendHead(b []byte, kind byte, n int) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

func appendArray(b []byte, n int) []byte { return appendHead(b, '*', n) }

// appendMap appends the head of a map of n pairs: in RESP2 an array of names and
// values in turn.
func appendMap(b []byte, proto, n int) []byte {
	if proto == 3 {
		return appendHead(b, '%', n)
	}
	return appendHead(b, '*', 2*n)
}

func appendNull(b []byte, proto int) []byte {
	if proto == 3 {
		return append(b, "_\r\n"...)
	}
	return append(b, "$-1\r\n"...)
}

// appendBool appends a truth value: in RESP2 1 or 0.
func appendBool(b []byte, proto int, v bool) []byte {
	switch {
	case proto == 3 && v:
		return append(b, "#t\r\n"...)
	case proto == 3:
		return append(b, "#f\r\n"...)
	case v:
		return append(b, ":1\r\n"...)
	}
	return append(b, ":0\r\n"...)
}
