package resp

import (
	"fmt"
	"path"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// info takes INFO [section ...].
func (c *conn) info(cmd *command) {
	c.out = appendVerbatim(c.out, c.proto, c.s.describe(cmd))
}

// A section of INFO.
type section struct {
	name  string
	lines func(s *Server, b []byte) []byte
}

var sections = [...]section{
	{"Server", func(s *Server, b []byte) []byte {
		up := int64(time.Since(s.began) / time.Second)
		return fmt.Appendf(b, "redis_version:%s\r\nredis_mode:standalone\r\nweir_version:%s\r\nuptime_in_seconds:%d\r\nuptime_in_days:%d\r\n",
			redisVersion, s.opt.Version, up, up/86400)
	}},
	{"Clients", func(s *Server, b []byte) []byte {
		st := s.Stats()
		return fmt.Appendf(b, "connected_clients:%d\r\nmaxclients:%d\r\nblocked_clients:0\r\n", st.Clients, st.MaxClients)
	}},
	{"Memory", func(_ *Server, b []byte) []byte {
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
		metrics.Read(sample)
		return fmt.Appendf(b, "used_memory:%d\r\n", sample[0].Value.Uint64())
	}},
	// Clients wait until nothing is loading.
	{"Persistence", func(_ *Server, b []byte) []byte {
		return append(b, "loading:0\r\nasync_loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\n"...)
	}},
	{"Stats", func(s *Server, b []byte) []byte {
		st := s.Stats()
		return fmt.Appendf(b, "total_connections_received:%d\r\ntotal_commands_processed:%d\r\nrejected_connections:%d\r\nacl_access_denied_auth:%d\r\n",
			st.Accepted, st.Commands, st.Refused, st.WrongPasswords)
	}},
	{"Replication", func(_ *Server, b []byte) []byte {
		return append(b, "role:master\r\nconnected_slaves:0\r\n"...)
	}},
	{"Cluster", func(_ *Server, b []byte) []byte { return append(b, "cluster_enabled:0\r\n"...) }},
	{"Keyspace", func(_ *Server, b []byte) []byte { return b }},
}

// describe returns the sections that are asked for, by default all.
func (s *Server) describe(cmd *command) string {
	var b []byte
	for _, sec := range sections {
		wanted := len(cmd.args) == 1
		for i := 1; i < len(cmd.args); i++ {
			wanted = wanted || cmd.is(i, sec.name) || cmd.is(i, "all") || cmd.is(i, "default") || cmd.is(i, "everything")
		}
		if !wanted {
			continue
		}
		if len(b) > 0 {
			b = append(b, "\r\n"...)
		}
		b = sec.lines(s, append(append(append(b, "# "...), sec.name...), "\r\n"...))
	}
	return string(b)
}

// commandCommand takes COMMAND and its subcommands.
func (c *conn) commandCommand(cmd *command) {
	cs, n := &c.s.commands, len(cmd.args)
	switch {
	case n == 1:
		c.writeDirect(cs.info[c.proto])
	case cmd.is(1, "count") && n == 2:
		c.out = appendInt(c.out, int64(len(cs.sorted)))
	case cmd.is(1, "list") && n == 2:
		c.out = appendArray(c.out, len(cs.sorted))
		for _, o := range cs.sorted {
			c.out = appendBulk(c.out, o.name)
		}
	case cmd.is(1, "info") && n == 2:
		c.writeDirect(cs.info[c.proto])
	case cmd.is(1, "info"):
		c.out = appendArray(c.out, n-2)
		for i := 2; i < n; i++ {
			if o := cs.find(cmd.at(i)); o != nil {
				c.out = o.appendInfo(c.out, c.proto)
			} else {
				c.out = appendNullArray(c.out, c.proto)
			}
			c.flushLarge()
		}
	case cmd.is(1, "docs") && n == 2:
		c.writeDirect(cs.docs[c.proto])
	case cmd.is(1, "docs"):
		var known []*order
		for i := 2; i < n; i++ {
			if o := cs.find(cmd.at(i)); o != nil {
				known = append(known, o)
			}
		}
		c.out = appendMap(c.out, c.proto, len(known))
		for _, o := range known {
			c.out = o.appendDocs(c.out, c.proto)
			c.flushLarge()
		}
	case cmd.is(1, "getkeys") && n > 2:
		c.getKeys(cmd)
	case cmd.is(1, "count"), cmd.is(1, "list"), cmd.is(1, "getkeys"):
		c.wrongArguments(cmd)
	default:
		c.unknownSubcommand(cmd)
	}
}

// flushLarge writes replies that grow while they are made.
func (c *conn) flushLarge() {
	if len(c.out) >= flushAt {
		c.flush()
	}
}

// getKeys takes COMMAND GETKEYS command [argument ...].
func (c *conn) getKeys(cmd *command) {
	o := c.s.commands.find(cmd.at(2))
	n := len(cmd.args) - 2 // of the command, with its name
	switch {
	case o == nil:
		c.complain("ERR Invalid command specified")
		return
	case o.key == 0:
		c.complain("ERR The command has no key arguments")
		return
	case o.arity > 0 && n != o.arity, n < -o.arity, n <= o.key:
		c.complain("ERR Invalid number of arguments specified for command")
		return
	}
	last := o.last
	if last < 0 {
		last += n
	}
	c.out = appendArray(c.out, (last-o.key)/o.step+1)
	for i := o.key; i <= last; i += o.step {
		c.bulk(cmd.at(2 + i))
	}
}

func appendNullArray(b []byte, proto int) []byte {
	if proto == 3 {
		return appendNull(b, proto)
	}
	return append(b, "*-1\r\n"...)
}

// appendInfo appends what COMMAND INFO says of a command.
func (o *order) appendInfo(b []byte, proto int) []byte {
	b = appendArray(b, 10)
	b = appendBulk(b, o.name)
	b = appendInt(b, int64(o.arity))
	flags := strings.Fields(o.flags)
	b = appendSet(b, proto, len(flags))
	for _, f := range flags {
		b = appendSimple(b, f)
	}
	for _, n := range []int{o.key, o.last, o.step} {
		b = appendInt(b, int64(n))
	}
	b = appendSet(b, proto, 0) // categories
	b = appendArray(b, 0)      // tips
	b = appendArray(b, 0)      // key specifications
	return appendArray(b, 0)   // subcommands
}

// appendDocs appends a command's name and what COMMAND DOCS says of it.
func (o *order) appendDocs(b []byte, proto int) []byte {
	b = appendBulk(b, o.name)
	args := strings.Fields(o.words)
	pairs := 3
	if len(args) > 0 {
		pairs++
	}
	b = appendMap(b, proto, pairs)
	b = appendBulk(appendBulk(b, "summary"), o.summary)
	b = appendBulk(appendBulk(b, "since"), "1.0.0")
	b = appendBulk(appendBulk(b, "group"), o.group)
	if len(args) == 0 {
		return b
	}
	// One argument whose name is the whole usage: clients show it as it is.
	b = appendArray(appendBulk(b, "arguments"), 1)
	b = appendMap(b, proto, 3)
	b = appendBulk(appendBulk(b, "name"), o.words)
	b = appendBulk(appendBulk(b, "type"), "string")
	return appendBulk(appendBulk(b, "display_text"), o.words)
}

// config takes CONFIG GET pattern [pattern ...].
func (c *conn) config(cmd *command) {
	switch {
	case !cmd.is(1, "get"):
		c.unknownSubcommand(cmd)
		return
	case len(cmd.args) < 3:
		c.wrongArguments(cmd)
		return
	}
	settings := [][2]string{
		{"appendonly", "no"},
		{"databases", strconv.Itoa(databases)},
		{"maxclients", strconv.Itoa(c.s.opt.MaxClients)},
		{"proto-max-bulk-len", strconv.Itoa(maxBulk)},
		{"save", ""},
		{"timeout", strconv.Itoa(int(c.s.opt.IdleTimeout / time.Second))},
	}
	var found [][2]string
	for _, s := range settings {
		for i := 2; i < len(cmd.args); i++ {
			if ok, err := path.Match(strings.ToLower(text(cmd.at(i))), s[0]); ok && err == nil {
				found = append(found, s)
				break
			}
		}
	}
	c.out = appendMap(c.out, c.proto, len(found))
	for _, s := range found {
		c.out = appendBulk(appendBulk(c.out, s[0]), s[1])
	}
}

func (c *conn) cluster(*command) {
	c.complain("ERR This instance has cluster support disabled")
}

func (c *conn) acl(cmd *command) {
	if !cmd.is(1, "whoami") || len(cmd.args) != 2 {
		c.unknownSubcommand(cmd)
		return
	}
	c.out = appendBulk(c.out, c.s.opt.User)
}

func (c *conn) module(cmd *command) {
	if !cmd.is(1, "list") || len(cmd.args) != 2 {
		c.unknownSubcommand(cmd)
		return
	}
	c.out = appendArray(c.out, 0)
}

func (c *conn) role(*command) {
	c.out = appendArray(c.out, 3)
	c.out = appendBulk(c.out, "master")
	c.out = appendInt(c.out, 0)
	c.out = appendArray(c.out, 0)
}

func (c *conn) time(*command) {
	now := time.Now()
	c.out = appendArray(c.out, 2)
	c.out = appendBulk(c.out, strconv.FormatInt(now.Unix(), 10))
	c.out = appendBulk(c.out, strconv.Itoa(now.Nanosecond()/1000))
}

func (c *conn) dbsize(*command) { c.out = appendInt(c.out, 0) }
