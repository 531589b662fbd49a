package resp

import (
	"slices"
	"strings"
	"time"
)

// An order is one command as the server knows it.
type order struct {
	name string
	// arity is the number of words with the name; at least as many if negative.
	arity int
	// flags are those of COMMAND; key is the position of the first key, and last of
	// the last, both zero for none.
	flags     string
	key, last int
	// charges: it may be decided together with those before it.
	charges bool
	// early: it may come before the client has authenticated.
	early bool
	// now: it is carried out at once within MULTI.
	now bool
	run func(c *conn, cmd *command)
}

// commands are all orders.
type commands struct {
	byName map[string]*order
	sorted []*order
	info   []byte // the reply to COMMAND
}

// orders returns all commands.
func orders() []order {
	const atOnce = "noscript loading stale fast no_auth"
	return []order{
		{name: "cl.throttle", arity: -1, flags: "write", key: 1, last: 1, charges: true, run: throttleKey},
		{name: "rl.throttle", arity: -1, flags: "write", key: 1, last: 1, charges: true, run: throttleKey},
		{name: "weir.check", arity: -4, flags: "write", charges: true, run: checkRules},
		{name: "weir.peek", arity: -4, flags: "readonly", charges: true, run: peekRules},
		{name: "weir.refund", arity: -4, flags: "write", charges: true, run: refundRules},
		{name: "weir.reset", arity: -4, flags: "write", charges: true, run: resetRules},
		{name: "weir.acquire", arity: -4, flags: "write", charges: true, run: acquirePermits},
		{name: "weir.release", arity: -4, flags: "write", charges: true, run: releasePermits},

		{name: "del", arity: -2, flags: "write", key: 1, last: -1, run: deleteKeys},
		{name: "unlink", arity: -2, flags: "write", key: 1, last: -1, run: deleteKeys},
		{name: "ttl", arity: 2, flags: "readonly", key: 1, last: 1, run: replyTTL(time.Second)},
		{name: "pttl", arity: 2, flags: "readonly", key: 1, last: 1, run: replyTTL(time.Millisecond)},

		{name: "hello", arity: -1, flags: atOnce, early: true, run: replyHello},
		{name: "auth", arity: -2, flags: atOnce, early: true, run: authenticateUser},
		{name: "ping", arity: -1, flags: "fast", run: replyPong},
		{name: "echo", arity: 2, flags: "fast", run: replyEcho},
		{name: "quit", arity: -1, flags: atOnce, early: true, now: true, run: quitConn},
		{name: "reset", arity: 1, flags: atOnce, early: true, now: true, run: resetConn},
		{name: "select", arity: 2, flags: "loading stale fast", run: selectDB},
		{name: "client", arity: -2, flags: "noscript loading stale", run: describeClient},
		{name: "multi", arity: 1, flags: "noscript loading stale fast", now: true, run: beginTransaction},
		{name: "exec", arity: 1, flags: "noscript loading stale", now: true, run: execTransaction},
		{name: "discard", arity: 1, flags: "noscript loading stale fast", now: true, run: discardTransaction},

		{name: "info", arity: -1, flags: "loading stale", run: replyInfo},
		{name: "command", arity: -1, flags: "loading stale", run: listCommands},
		{name: "config", arity: -2, flags: "admin noscript loading stale", run: replyConfig},
	}
}

func newCommands() commands {
	all := orders()
	cs := commands{byName: make(map[string]*order, len(all))}
	for i := range all {
		o := &all[i]
		cs.byName[o.name] = o
		cs.sorted = append(cs.sorted, o)
	}
	slices.SortFunc(cs.sorted, func(a, b *order) int { return strings.Compare(a.name, b.name) })
	cs.info = appendArray(nil, len(cs.sorted))
	for _, o := range cs.sorted {
		cs.info = o.appendInfo(cs.info)
	}
	return cs
}

// findOrder returns the command of a name in any case, nil if there is none.
func (cs *commands) findOrder(name []byte) *order {
	var lower [16]byte
	if len(name) > len(lower) {
		return nil
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return cs.byName[string(lower[:len(name)])]
}

// isThrottle reports whether a name is that of the one command that is worth a
// look of its own: looking it up takes as long as reading it.
func isThrottle(name []byte) bool {
	return strings.EqualFold(aliasBytes(name), "cl.throttle") || strings.EqualFold(aliasBytes(name), "rl.throttle")
}

// runCommand carries out one command.
func (c *conn) runCommand(cmd *command) {
	name := cmd.argument(0)
	if c.session.isAuthenticated() && c.tx == nil && isThrottle(name) {
		throttleKey(c, cmd)
		return
	}
	o := c.s.commands.findOrder(name)
	switch {
	case o != nil && !o.charges:
		c.batch.decidePending() // what was asked before is answered before
	case o == nil:
		replyUnknown(c, cmd)
		return
	}
	switch n := len(cmd.args); {
	case !c.session.isAuthenticated() && !o.early:
		c.complain("NOAUTH Authentication required.")
	case o.arity > 0 && n != o.arity, n < -o.arity:
		c.tx.spoil()
		c.complain("ERR wrong number of arguments for '" + o.name + "' command")
	case c.tx != nil && !o.now:
		queueCommand(c, cmd)
	default:
		o.run(c, cmd)
	}
}

// replyUnknown answers a command that there is none of. What came on a line is another
// protocol, such as the request of a web page, and is cut off before more of it is taken
// for commands.
func replyUnknown(c *conn, cmd *command) {
	name := cmd.argument(0)
	if cmd.inline {
		c.breakOff(protocolError("no command begins an inline request"))
		return
	}
	if !c.session.isAuthenticated() {
		c.complain("NOAUTH Authentication required.")
		return
	}
	c.tx.spoil()
	b := append(make([]byte, 0, 3*maxRepeated), "ERR unknown command '"...)
	b = append(append(b, clipArgument(name)...), "', with args beginning with: "...)
	for i, from := 1, len(b); i < len(cmd.args) && len(b)-from < maxRepeated; i++ {
		arg := cmd.argument(i)
		b = append(b, '\'')
		b = append(b, arg[:min(len(arg), maxRepeated-(len(b)-from))]...)
		b = append(b, "' "...)
	}
	c.complain(string(b))
}

func execTransaction(c *conn, _ *command) {
	t := c.tx
	c.tx = nil
	if t != nil {
		defer c.s.resizeLarge(&t.large, 0)
	}
	switch {
	case t == nil:
		c.complain("ERR EXEC without MULTI")
		return
	case t.spoiled:
		c.complain("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	c.replies.out = appendArray(c.replies.out, t.commands)
	r := reader{in: t.raw, to: len(t.raw)}
	for r.from < r.to && !c.replies.lost {
		var cmd command
		// They were read before: nothing can be wrong with them.
		if done, err := r.nextCommand(&cmd, lateBounds); !done || err != nil {
			panic("resp: a gathered command cannot be read")
		}
		c.runCommand(&cmd)
	}
	c.batch.decidePending() // before its texts are gone
}
