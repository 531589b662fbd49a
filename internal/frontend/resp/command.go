package resp

import (
	"slices"
	"strings"
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
		{name: "cl.throttle", arity: -1, flags: "write", key: 1, last: 1, charges: true, run: (*conn).throttle},
		{name: "rl.throttle", arity: -1, flags: "write", key: 1, last: 1, charges: true, run: (*conn).throttle},
		{name: "weir.check", arity: -4, flags: "write", charges: true, run: (*conn).check},
		{name: "weir.peek", arity: -4, flags: "readonly", charges: true, run: (*conn).peek},
		{name: "weir.refund", arity: -4, flags: "write", charges: true, run: (*conn).refund},
		{name: "weir.reset", arity: -4, flags: "write", charges: true, run: (*conn).resetKeys},
		{name: "weir.acquire", arity: -4, flags: "write", charges: true, run: (*conn).acquire},
		{name: "weir.release", arity: -4, flags: "write", charges: true, run: (*conn).release},

		{name: "del", arity: -2, flags: "write", key: 1, last: -1, run: (*conn).del},
		{name: "unlink", arity: -2, flags: "write", key: 1, last: -1, run: (*conn).del},
		{name: "ttl", arity: 2, flags: "readonly", key: 1, last: 1, run: (*conn).ttl},
		{name: "pttl", arity: 2, flags: "readonly", key: 1, last: 1, run: (*conn).pttl},

		{name: "hello", arity: -1, flags: atOnce, early: true, run: (*conn).hello},
		{name: "auth", arity: -2, flags: atOnce, early: true, run: (*conn).auth},
		{name: "ping", arity: -1, flags: "fast", run: (*conn).ping},
		{name: "echo", arity: 2, flags: "fast", run: (*conn).echo},
		{name: "quit", arity: -1, flags: atOnce, early: true, now: true, run: (*conn).quit},
		{name: "reset", arity: 1, flags: atOnce, early: true, now: true, run: (*conn).resetConn},
		{name: "select", arity: 2, flags: "loading stale fast", run: (*conn).selectDB},
		{name: "client", arity: -2, flags: "noscript loading stale", run: (*conn).client},
		{name: "multi", arity: 1, flags: "noscript loading stale fast", now: true, run: (*conn).multi},
		{name: "exec", arity: 1, flags: "noscript loading stale", now: true, run: (*conn).exec},
		{name: "discard", arity: 1, flags: "noscript loading stale fast", now: true, run: (*conn).discard},

		{name: "info", arity: -1, flags: "loading stale", run: (*conn).info},
		{name: "command", arity: -1, flags: "loading stale", run: (*conn).listCommands},
		{name: "config", arity: -2, flags: "admin noscript loading stale", run: (*conn).config},
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

// find returns the command of a name in any case, nil if there is none.
func (cs *commands) find(name []byte) *order {
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
	const rest = "l.throttle"
	if len(name) != 1+len(rest) || name[0]|0x20 != 'c' && name[0]|0x20 != 'r' || name[2] != '.' {
		return false
	}
	for i, c := range name[1:] {
		// The dot keeps its bit, and was looked at.
		if c|0x20 != rest[i] {
			return false
		}
	}
	return true
}

// do carries out one command.
func (c *conn) do(cmd *command) {
	name := cmd.at(0)
	if c.authed && c.tx == nil && isThrottle(name) {
		c.throttle(cmd)
		return
	}
	o := c.s.commands.find(name)
	switch {
	case o != nil && !o.charges:
		c.decide() // what was asked before is answered before
	case o == nil:
		c.unknown(cmd)
		return
	}
	switch n := len(cmd.args); {
	case !c.authed && !o.early:
		c.complain("NOAUTH Authentication required.")
	case o.arity > 0 && n != o.arity, n < -o.arity:
		c.spoil()
		c.complain("ERR wrong number of arguments for '" + o.name + "' command")
	case c.tx != nil && !o.now:
		c.gather(cmd)
	default:
		o.run(c, cmd)
	}
}

// unknown answers a command that there is none of. A web page that makes a
// browser send its request here is cut off before more of the request is taken
// for commands.
func (c *conn) unknown(cmd *command) {
	name := cmd.at(0)
	if cmd.inline && (strings.EqualFold(text(name), "post") || strings.EqualFold(text(name), "host:")) {
		c.decide()
		c.s.broken.Add(1)
		c.ends = true
		return
	}
	if !c.authed {
		c.complain("NOAUTH Authentication required.")
		return
	}
	c.spoil()
	b := append(make([]byte, 0, 3*maxRepeated), "ERR unknown command '"...)
	b = append(append(b, short(name)...), "', with args beginning with: "...)
	for i, from := 1, len(b); i < len(cmd.args) && len(b)-from < maxRepeated; i++ {
		arg := cmd.at(i)
		b = append(b, '\'')
		b = append(b, arg[:min(len(arg), maxRepeated-(len(b)-from))]...)
		b = append(b, "' "...)
	}
	c.complain(string(b))
}

// unknownSubcommand answers a subcommand that there is none of.
func (c *conn) unknownSubcommand(cmd *command) {
	c.complain("ERR unknown subcommand '" + short(cmd.at(1)) + "'. Try " + strings.ToUpper(string(cmd.at(0))) + " HELP.")
}

// wrongArguments answers a subcommand with too few or too many arguments.
func (c *conn) wrongArguments(cmd *command) {
	c.complain("ERR wrong number of arguments for '" + strings.ToLower(string(cmd.at(0))+"|"+short(cmd.at(1))) + "' command")
}

// is reports whether the i-th argument is a word, in any case.
func (c *command) is(i int, word string) bool { return strings.EqualFold(text(c.at(i)), word) }
