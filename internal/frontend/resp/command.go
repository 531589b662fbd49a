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
	// flags are those of COMMAND; key is the position of the first key, and of the
	// last, and the step between them, all zero for none.
	flags           string
	key, last, step int
	// summary, group and words are what COMMAND DOCS says.
	summary, group, words string
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
	// info and docs are the replies to COMMAND and COMMAND DOCS, by version.
	info, docs [4][]byte
}

// Groups of COMMAND DOCS.
const (
	inGeneric    = "generic"
	inConnection = "connection"
	inServer     = "server"
	inLimits     = "module"
)

// orders returns all commands.
func orders() []order {
	const domainWords = "domain key value [key value ...] [| key value ...]"
	return []order{
		{name: "cl.throttle", arity: -1, flags: "write", key: 1, last: 1, step: 1, group: inLimits, run: (*conn).throttle,
			words: "key max_burst count_per_period period [quantity]", summary: "Takes a quantity from a bucket of the given numbers, as redis-cell does."},
		{name: "rl.throttle", arity: -1, flags: "write", key: 1, last: 1, step: 1, group: inLimits, run: (*conn).throttle,
			words: "key max_burst count_per_period period [quantity]", summary: "The same as CL.THROTTLE."},
		{name: "weir.check", arity: -4, flags: "write", group: inLimits, run: (*conn).check,
			words: domainWords + " [COST cost] [PRIORITY priority] [LEASE lease]", summary: "Decides a request by the rules, and charges it if it may pass."},
		{name: "weir.peek", arity: -4, flags: "readonly", group: inLimits, run: (*conn).peek,
			words: domainWords + " [COST cost] [PRIORITY priority]", summary: "Decides a request by the rules and charges nothing."},
		{name: "weir.refund", arity: -4, flags: "write", group: inLimits, run: (*conn).refund,
			words: domainWords + " [COST cost]", summary: "Gives back what a request was charged."},
		{name: "weir.reset", arity: -4, flags: "write", group: inLimits, run: (*conn).resetKeys,
			words: domainWords, summary: "Makes the keys of a request as if they had never been seen."},
		{name: "weir.acquire", arity: -4, flags: "write", group: inLimits, run: (*conn).acquire,
			words: domainWords + " [COST cost] [PRIORITY priority] [LEASE lease]", summary: "Takes or renews a lease of limits on how much runs at once."},
		{name: "weir.release", arity: -4, flags: "write", group: inLimits, run: (*conn).release,
			words: domainWords + " LEASE lease", summary: "Ends a lease."},

		{name: "del", arity: -2, flags: "write", key: 1, last: -1, step: 1, group: inGeneric, run: (*conn).del, words: "key [key ...]", summary: "Makes keys of CL.THROTTLE as if they had never been seen."},
		{name: "unlink", arity: -2, flags: "write", key: 1, last: -1, step: 1, group: inGeneric, run: (*conn).del, words: "key [key ...]", summary: "The same as DEL."},
		{name: "exists", arity: -2, flags: "readonly", key: 1, last: -1, step: 1, group: inGeneric, run: (*conn).exists, words: "key [key ...]", summary: "Counts the keys of CL.THROTTLE that are not whole."},
		{name: "ttl", arity: 2, flags: "readonly", key: 1, last: 1, step: 1, group: inGeneric, run: (*conn).ttl, words: "key", summary: "Tells the seconds until a key of CL.THROTTLE is whole again."},
		{name: "pttl", arity: 2, flags: "readonly", key: 1, last: 1, step: 1, group: inGeneric, run: (*conn).pttl, words: "key", summary: "Tells the milliseconds until a key of CL.THROTTLE is whole again."},
		{name: "type", arity: 2, flags: "readonly", key: 1, last: 1, step: 1, group: inGeneric, run: (*conn).kind, words: "key", summary: "Tells whether a key of CL.THROTTLE is not whole: string or none."},

		{name: "hello", arity: -1, flags: "noscript loading stale fast no_auth", early: true, group: inConnection, run: (*conn).hello, words: "[protover [AUTH username password] [SETNAME clientname]]", summary: "Chooses the protocol's version."},
		{name: "auth", arity: -2, flags: "noscript loading stale fast no_auth", early: true, group: inConnection, run: (*conn).auth, words: "[username] password", summary: "Authenticates."},
		{name: "ping", arity: -1, flags: "fast", group: inConnection, run: (*conn).ping, words: "[message]", summary: "Answers."},
		{name: "echo", arity: 2, flags: "fast", group: inConnection, run: (*conn).echo, words: "message", summary: "Repeats."},
		{name: "quit", arity: -1, flags: "noscript loading stale fast no_auth", early: true, now: true, group: inConnection, run: (*conn).quit, summary: "Ends the connection."},
		{name: "reset", arity: 1, flags: "noscript loading stale fast no_auth", early: true, now: true, group: inConnection, run: (*conn).resetConn, summary: "Makes the connection as if it were new."},
		{name: "select", arity: 2, flags: "loading stale fast", group: inConnection, run: (*conn).selectDB, words: "index", summary: "Chooses the database: keys of CL.THROTTLE in one are not those in another."},
		{name: "client", arity: -2, flags: "noscript loading stale", group: inConnection, run: (*conn).client, words: "subcommand [argument ...]", summary: "ID, INFO, LIST, GETNAME, SETNAME, SETINFO, NO-EVICT, NO-TOUCH."},
		{name: "multi", arity: 1, flags: "noscript loading stale fast", now: true, group: "transactions", run: (*conn).multi, summary: "Begins to gather commands."},
		{name: "exec", arity: 1, flags: "noscript loading stale", now: true, group: "transactions", run: (*conn).exec, summary: "Carries out what was gathered, in order."},
		{name: "discard", arity: 1, flags: "noscript loading stale fast", now: true, group: "transactions", run: (*conn).discard, summary: "Forgets what was gathered."},

		{name: "info", arity: -1, flags: "loading stale", group: inServer, run: (*conn).info, words: "[section ...]", summary: "Tells how the server is doing."},
		{name: "command", arity: -1, flags: "loading stale", group: inServer, run: (*conn).commandCommand, words: "[COUNT | LIST | INFO [command ...] | DOCS [command ...] | GETKEYS command ...]", summary: "Lists commands."},
		{name: "config", arity: -2, flags: "admin noscript loading stale", group: inServer, run: (*conn).config, words: "GET pattern [pattern ...]", summary: "Tells settings."},
		{name: "cluster", arity: -2, flags: "loading stale", group: "cluster", run: (*conn).cluster, words: "subcommand", summary: "Says that there is no cluster."},
		{name: "readonly", arity: 1, flags: "loading stale fast", group: "cluster", run: (*conn).cluster, summary: "Says that there is no cluster."},
		{name: "readwrite", arity: 1, flags: "loading stale fast", group: "cluster", run: (*conn).cluster, summary: "Says that there is no cluster."},
		{name: "acl", arity: -2, flags: "loading stale", group: inServer, run: (*conn).acl, words: "WHOAMI", summary: "Tells who is authenticated."},
		{name: "module", arity: -2, flags: "admin noscript", group: inServer, run: (*conn).module, words: "LIST", summary: "Lists no modules."},
		{name: "role", arity: 1, flags: "noscript loading stale fast", group: inServer, run: (*conn).role, summary: "Says that this is a master."},
		{name: "time", arity: 1, flags: "loading stale fast", group: inServer, run: (*conn).time, summary: "Tells the time."},
		{name: "dbsize", arity: 1, flags: "readonly fast", group: inServer, run: (*conn).dbsize, summary: "Answers 0: keys are not listed."},
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
	for _, proto := range []int{2, 3} {
		info := appendArray(nil, len(cs.sorted))
		docs := appendMap(nil, proto, len(cs.sorted))
		for _, o := range cs.sorted {
			info = o.appendInfo(info, proto)
			docs = o.appendDocs(docs, proto)
		}
		cs.info[proto], cs.docs[proto] = info, docs
	}
	return cs
}

// Commands returns the names of all commands, sorted.
func (s *Server) Commands() []string {
	names := make([]string, len(s.commands.sorted))
	for i, o := range s.commands.sorted {
		names[i] = strings.ToUpper(o.name)
	}
	return names
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
	case o != nil && o.group != inLimits:
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
