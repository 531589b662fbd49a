package resp

import (
	"net"
	"strings"
)

// A conn is one client. Its own goroutine runs it; others use nc alone.
type conn struct {
	s  *Server
	nc net.Conn
	id uint64

	reader  reader
	replies writer
	batch   batch
	session session
	memo    memo
	tx      *transaction // nil outside of MULTI
	cmd     command      // the one that is carried out; here, as what it is given to lets it escape

	// ends: the connection is closed when the replies are out.
	ends bool
}

// complain replies with an error to a command that cannot be carried out.
func (c *conn) complain(text string) {
	c.batch.decidePending()
	c.replies.out = appendError(c.replies.out, text)
}

// breakOff ends the connection of a client that broke the protocol or its bounds.
func (c *conn) breakOff(err error) {
	c.s.broken.Add(1)
	c.complain("ERR " + err.Error())
	c.ends = true
}

func (c *conn) replyOK() { c.replies.out = appendSimple(c.replies.out, "OK") }

// complainSubcommand answers a subcommand that there is none of.
func complainSubcommand(c *conn, cmd *command) {
	c.complain("ERR unknown subcommand '" + clipArgument(cmd.argument(1)) + "'. Try " + strings.ToUpper(string(cmd.argument(0))) + " HELP.")
}

// complainArguments answers a subcommand with too few or too many arguments.
func complainArguments(c *conn, cmd *command) {
	c.complain("ERR wrong number of arguments for '" + strings.ToLower(string(cmd.argument(0))+"|"+clipArgument(cmd.argument(1))) + "' command")
}
