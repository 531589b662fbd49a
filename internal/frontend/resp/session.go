package resp

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/listen"
)

// redisVersion is the version of Redis that clients are told: they choose by it
// what to send.
const redisVersion = "7.4.0"

// defaultUser is the user of clients that give a password alone.
const defaultUser = "default"

const wrongPass = "WRONGPASS invalid username-password pair or user is disabled."

// A session is what a client has said of itself.
type session struct {
	authBy time.Time // when it must have authenticated; zero once it has
	early  int       // bytes of commands before that
	wrong  int       // passwords
	db     int64
	name   string
}

func (s *session) isAuthenticated() bool { return s.authBy.IsZero() }

// authenticate reports whether the user has the password. Without a password there is
// the default user alone, as of a Redis without one. Beyond the bound on guesses it waits.
func authenticate(c *conn, user, password []byte) bool {
	isUser, isPassword := guesses.Equal(aliasBytes(user), c.s.opt.User), guesses.Equal(aliasBytes(password), c.s.opt.Password)
	ok, wait := isUser && c.s.opt.Password == "", time.Duration(0)
	if !ok { // Another connection is no new start: what an address may guess is bounded too.
		ok, wait = c.s.opt.Guesses.Check(c.s.ctx, "password of the Redis protocol", guesses.Client(c.nc.RemoteAddr().String()),
			c.s.opt.Password, isUser && isPassword)
	}
	if ok {
		if !c.session.isAuthenticated() {
			listen.SetAuthenticated(c.nc)
		}
		c.session.authBy = time.Time{}
		return true
	}
	c.s.wrong.Add(1)
	c.session.wrong++
	c.ends = c.ends || wait > 0 || c.session.wrong == maxWrongPasswords
	return false
}

// replyHello takes HELLO [protover [AUTH username password] [SETNAME clientname]].
func replyHello(c *conn, cmd *command) {
	proto := c.replies.proto
	var name []byte
	if len(cmd.args) > 1 {
		v, ok := parseInt(cmd.argument(1))
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
		case cmd.argumentIs(i, "auth") && left >= 2:
			if !authenticate(c, cmd.argument(i+1), cmd.argument(i+2)) {
				c.complain(wrongPass)
				return
			}
			i += 2
		case cmd.argumentIs(i, "setname") && left >= 1:
			name = cmd.argument(i + 1)
			if !isGoodName(c, name, "Client names") {
				return
			}
			i++
		default:
			c.complain("ERR Syntax error in HELLO option '" + clipArgument(cmd.argument(i)) + "'")
			return
		}
	}
	if !c.session.isAuthenticated() {
		c.complain("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if name != nil {
		c.session.name = string(name)
	}
	c.replies.proto = proto
	b := appendMap(c.replies.out, proto, 7)
	b = appendBulk(appendBulk(b, "server"), "redis")
	b = appendBulk(appendBulk(b, "version"), redisVersion)
	b = appendInt(appendBulk(b, "proto"), int64(proto))
	b = appendInt(appendBulk(b, "id"), int64(c.id))
	b = appendBulk(appendBulk(b, "mode"), "standalone")
	b = appendBulk(appendBulk(b, "role"), "master")
	c.replies.out = appendArray(appendBulk(b, "modules"), 0)
}

// authenticateUser takes AUTH [username] password.
func authenticateUser(c *conn, cmd *command) {
	user, password := []byte(defaultUser), cmd.argument(1)
	switch len(cmd.args) {
	case 2:
		if c.s.opt.Password == "" {
			c.complain("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
			return
		}
	case 3:
		user, password = cmd.argument(1), cmd.argument(2)
	default:
		c.complain("ERR syntax error")
		return
	}
	if !authenticate(c, user, password) {
		c.complain(wrongPass)
		return
	}
	c.replyOK()
}

func replyPong(c *conn, cmd *command) {
	switch len(cmd.args) {
	case 1:
		c.replies.out = appendSimple(c.replies.out, "PONG")
	case 2:
		c.replies.replyBulk(cmd.argument(1))
	default:
		c.complain("ERR wrong number of arguments for 'ping' command")
	}
}

func replyEcho(c *conn, cmd *command) { c.replies.replyBulk(cmd.argument(1)) }

func quitConn(c *conn, _ *command) {
	c.replyOK()
	c.ends = true
}

// resetConn takes RESET.
func resetConn(c *conn, _ *command) {
	c.endTransaction()
	c.replies.proto = 2
	if c.session.isAuthenticated() && c.s.opt.Password != "" {
		// The time of a client that is unauthenticated already does not begin anew.
		c.session.authBy = time.Now().Add(c.s.opt.Timeout)
	}
	c.session.db = 0
	c.session.name = ""
	c.replies.out = appendSimple(c.replies.out, "RESET")
}

func selectDB(c *conn, cmd *command) {
	n, ok := parseInt(cmd.argument(1))
	switch {
	case !ok:
		c.complain("ERR value is not an integer or out of range")
	case n < 0 || n >= databases:
		c.complain("ERR DB index is out of range")
	default:
		c.session.db = n
		c.replyOK()
	}
}

// isGoodName reports whether Redis takes a name, and complains if it does not.
func isGoodName(c *conn, name []byte, what string) bool {
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

// describeClient takes CLIENT and its subcommands.
func describeClient(c *conn, cmd *command) {
	n := len(cmd.args)
	switch sub := strings.ToLower(clipArgument(cmd.argument(1))); sub {
	case "id":
		c.replies.out = appendInt(c.replies.out, int64(c.id))
	case "getname":
		if c.session.name == "" {
			c.replies.out = appendNull(c.replies.out, c.replies.proto)
			return
		}
		c.replies.out = appendBulk(c.replies.out, c.session.name)
	case "setname":
		if n != 3 {
			complainArguments(c, cmd)
		} else if name := cmd.argument(2); isGoodName(c, name, "Client names") {
			c.session.name = string(name)
			c.replyOK()
		}
	case "setinfo":
		setInfo(c, cmd)
	default:
		complainSubcommand(c, cmd)
	}
}

// setInfo takes CLIENT SETINFO LIB-NAME|LIB-VER text, which clients send as they
// connect. Nothing reads it.
func setInfo(c *conn, cmd *command) {
	if len(cmd.args) != 4 {
		complainArguments(c, cmd)
		return
	}
	if !cmd.argumentIs(2, "lib-name") && !cmd.argumentIs(2, "lib-ver") {
		c.complain("ERR Unrecognized option '" + clipArgument(cmd.argument(2)) + "'")
	} else if isGoodName(c, cmd.argument(3), strings.ToLower(string(cmd.argument(2)))) {
		c.replyOK()
	}
}
