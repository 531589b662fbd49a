package resp

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// redisVersion is the version of Redis that clients are told: they choose by it
// what to send.
const redisVersion = "7.4.0"

// defaultUser is the user of clients that give a password alone.
const defaultUser = "default"

const wrongPass = "WRONGPASS invalid username-password pair or user is disabled."

// hello takes HELLO [protover [AUTH username password] [SETNAME clientname]].
func (c *conn) hello(cmd *command) {
	proto := c.proto
	var name []byte
	if len(cmd.args) > 1 {
		v, ok := parseInt(cmd.at(1))
		switch {
		case !ok:
			c.complain("ERR Protocol version is not an integer or out of range")
			return
		case v != 2 && v != 3:
			c.complain("NOPROTO unsupported protocol version")
			return
		}
		proto = int(v)
	}
	for i := 2; i < len(cmd.args); i++ {
		left := len(cmd.args) - i - 1
		switch {
		case cmd.is(i, "auth") && left >= 2:
			if !c.authenticate(cmd.at(i+1), cmd.at(i+2)) {
				c.complain(wrongPass)
				return
			}
			i += 2
		case cmd.is(i, "setname") && left >= 1:
			name = cmd.at(i + 1)
			if !c.goodName(name, "Client names") {
				return
			}
			i++
		default:
			c.complain("ERR Syntax error in HELLO option '" + short(cmd.at(i)) + "'")
			return
		}
	}
	if !c.authed {
		c.complain("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if name != nil {
		c.name = string(name)
	}
	c.proto = proto
	b := appendMap(c.out, proto, 7)
	b = appendBulk(appendBulk(b, "server"), "redis")
	b = appendBulk(appendBulk(b, "version"), redisVersion)
	b = appendInt(appendBulk(b, "proto"), int64(proto))
	b = appendInt(appendBulk(b, "id"), int64(c.id))
	b = appendBulk(appendBulk(b, "mode"), "standalone")
	b = appendBulk(appendBulk(b, "role"), "master")
	c.out = appendArray(appendBulk(b, "modules"), 0)
}

// auth takes AUTH [username] password.
func (c *conn) auth(cmd *command) {
	user, password := []byte(defaultUser), cmd.at(1)
	switch len(cmd.args) {
	case 2:
		if c.s.opt.Password == "" {
			c.complain("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
			return
		}
	case 3:
		user, password = cmd.at(1), cmd.at(2)
	default:
		c.complain("ERR syntax error")
		return
	}
	if !c.authenticate(user, password) {
		c.complain(wrongPass)
		return
	}
	c.ok()
}

func (c *conn) ok() { c.out = appendSimple(c.out, "OK") }

func (c *conn) ping(cmd *command) {
	switch len(cmd.args) {
	case 1:
		c.out = appendSimple(c.out, "PONG")
	case 2:
		c.bulk(cmd.at(1))
	default:
		c.complain("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *conn) echo(cmd *command) { c.bulk(cmd.at(1)) }

// bulk replies with what the client sent. A large text is written from where it
// is.
func (c *conn) bulk(b []byte) {
	if len(b) < smallBuffer {
		c.out = appendBulk(c.out, b)
		return
	}
	c.out = appendHead(c.out, '$', len(b))
	c.writeDirect(b)
	c.out = append(c.out, '\r', '\n')
}

func (c *conn) quit(*command) {
	c.ok()
	c.ends = true
}

// resetConn takes RESET.
func (c *conn) resetConn(*command) {
	c.endTransaction()
	c.proto = 2
	if c.authed && c.s.opt.Password != "" {
		// A stranger's time does not begin anew.
		c.authed, c.authBy = false, time.Now().Add(c.s.opt.Timeout)
	}
	c.useDB(0)
	c.name = ""
	c.out = appendSimple(c.out, "RESET")
}

func (c *conn) selectDB(cmd *command) {
	n, ok := parseInt(cmd.at(1))
	switch {
	case !ok:
		c.complain("ERR value is not an integer or out of range")
	case n < 0 || n >= databases:
		c.complain("ERR DB index is out of range")
	default:
		c.useDB(n)
		c.ok()
	}
}

func (c *conn) useDB(n int64) {
	if n != c.db {
		c.memo.limit = nil
	}
	c.db = n
}

// goodName reports whether Redis takes a name, and complains if it does not.
func (c *conn) goodName(name []byte, what string) bool {
	if bytes.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' }) {
		c.complain("ERR " + what + " cannot contain spaces, newlines or special characters.")
		return false
	}
	if len(name) > maxRepeated {
		c.complain(fmt.Sprintf("ERR %s cannot be longer than %d bytes.", what, maxRepeated))
		return false
	}
	return true
}

// client takes CLIENT and its subcommands.
func (c *conn) client(cmd *command) {
	n := len(cmd.args)
	switch sub := strings.ToLower(short(cmd.at(1))); sub {
	case "id":
		c.out = appendInt(c.out, int64(c.id))
	case "getname":
		if c.name == "" {
			c.out = appendNull(c.out, c.proto)
			return
		}
		c.out = appendBulk(c.out, c.name)
	case "setname":
		if n != 3 {
			c.wrongArguments(cmd)
		} else if name := cmd.at(2); c.goodName(name, "Client names") {
			c.name = string(name)
			c.ok()
		}
	case "setinfo":
		c.setInfo(cmd)
	default:
		c.unknownSubcommand(cmd)
	}
}

// setInfo takes CLIENT SETINFO LIB-NAME|LIB-VER text, which clients send as they
// connect. Nothing reads it.
func (c *conn) setInfo(cmd *command) {
	if len(cmd.args) != 4 {
		c.wrongArguments(cmd)
		return
	}
	if !cmd.is(2, "lib-name") && !cmd.is(2, "lib-ver") {
		c.complain("ERR Unrecognized option '" + short(cmd.at(2)) + "'")
	} else if c.goodName(cmd.at(3), strings.ToLower(string(cmd.at(2)))) {
		c.ok()
	}
}
