package resp

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// What other protocols say first, each up to a line's end, where a command of ours may stand.
var foreign = []string{
	"\x16\x03\x01\x02\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03PING\r\n", // TLS
	"EHLO localhost\r\n", "HELO x\r\n", "MAIL FROM:<a@b>\r\n", // SMTP
	"USER anonymous\r\n", "PASV\r\n", // FTP
	"set k 0 0 5\r\n", "get k\r\n", "stats\r\n", "\x80\x00\x00\r\n", // memcached
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n", "PUT /PING HTTP/1.0\n", "OPTIONS * HTTP/1.1\r\n", "Host: localhost\r\n", "DELETE / HTTP/1.1\r\n",
	"SSH-2.0-OpenSSH_9\r\n", "NICK x\r\n", "\x00\x00\x00\x17\r\n", "\x03\x00\x00\x13\r\n", "{\"a\":1}\r\n", "a\tb\r\n", "PING\tx\r\n", "caf\xc3\xa9\r\n", "PING \x7f\r\n", "a\rb\n",
}

// A connection that speaks another protocol is ended, and what follows on it is not carried
// out, in whatever pieces it comes. People who type commands are served.
func TestForeignProtocolsEnd(t *testing.T) {
	for _, opt := range []Options{{}, {Password: "sixteen bytes..."}} {
		b := newBench(t, opt)
		addr := b.listen(t)
		for _, text := range foreign {
			for _, pieces := range []bool{false, true} {
				c := connect(t, addr)
				all := []byte(text + "CL.THROTTLE k 0 1 60\r\n*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$1\r\n0\r\n$1\r\n1\r\n$2\r\n60\r\n")
				if pieces {
					c.send(all[:len(text)/2])
					time.Sleep(time.Millisecond) // a piece by itself, or not
					all = all[len(text)/2:]
				}
				_, _ = c.nc.Write(all) // the connection may have ended
				if got := c.ended(); strings.Contains(got, "*5") || strings.Count(got, "-") > 1 {
					t.Errorf("%q: %q", text, got)
				}
			}
		}
		c := connect(t, addr)
		if opt.Password != "" {
			c.do("AUTH", opt.Password)
		}
		if got := c.do("TTL", "k"); got != ":-2" {
			t.Errorf("something was carried out: %s", got)
		}
		for _, x := range [][2]string{{"PING\r\n", "+PONG"}, {"ping\n", "+PONG"}, {"  ECHO   hi  \r\n", "$2|hi"}, {"\r\n\r\nPING\r\n", "+PONG"}, {"CL.THROTTLE k2 15 30 60\r\n", "*5|:0|:16|:15|:-1|:2"}} {
			c.send([]byte(x[0]))
			if got := c.reply(); got != x[1] {
				t.Errorf("%q: %q", x[0], got)
			}
		}
	}
}

// FuzzForeign: a line with a byte that nobody types is none of this protocol, and any other is.
func FuzzForeign(f *testing.F) {
	for _, text := range foreign {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if line = append(bytes.ReplaceAll(line, []byte("\n"), nil), '\n'); line[0] == '*' || len(line) > maxEarlyBulk {
			return
		}
		var p parser
		_, err := p.parseCommand(line, lateBounds)
		typed := bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
		if strange := bytes.ContainsFunc(typed, func(c rune) bool { return c < ' ' || c > '~' }); strange != (err != nil) && !bytes.ContainsAny(typed, "\"'") && len(bytes.Fields(typed)) <= maxArgs {
			t.Fatalf("%q: %v", line, err)
		}
	})
}
