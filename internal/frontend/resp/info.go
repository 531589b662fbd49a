package resp

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// replyInfo takes INFO [section ...] and replies with all sections: clients look for
// the lines that they know.
func replyInfo(c *conn, _ *command) {
	st, up := c.s.Stats(), int64(time.Since(c.s.began)/time.Second)
	// Clients wait until nothing is loading.
	c.replies.out = appendBulk(c.replies.out, fmt.Appendf(nil, "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nweir_version:%s\r\nuptime_in_seconds:%d\r\n"+
		"\r\n# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n"+
		"\r\n# Persistence\r\nloading:0\r\n"+
		"\r\n# Stats\r\ntotal_connections_received:%d\r\ntotal_commands_processed:%d\r\nrejected_connections:%d\r\nacl_access_denied_auth:%d\r\n"+
		"\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n",
		redisVersion, c.s.opt.Version, up, st.Clients, st.MaxClients, st.Accepted, st.Commands, st.Refused, st.WrongPasswords))
}

// listCommands takes COMMAND.
func listCommands(c *conn, cmd *command) {
	if len(cmd.args) > 1 {
		complainSubcommand(c, cmd)
		return
	}
	c.replies.writeDirect(c.s.commands.info)
}

// appendInfo appends what COMMAND says of a command.
func (o *order) appendInfo(b []byte) []byte {
	b = appendInt(appendBulk(appendArray(b, 10), o.name), int64(o.arity))
	flags := strings.Fields(o.flags)
	b = appendArray(b, len(flags))
	for _, f := range flags {
		b = appendSimple(b, f)
	}
	// The step between keys is 1 where there are keys.
	for _, n := range []int{o.key, o.last, o.key} {
		b = appendInt(b, int64(n))
	}
	for range 4 { // categories, tips, key specifications, subcommands
		b = appendArray(b, 0)
	}
	return b
}

// replyConfig takes CONFIG GET pattern [pattern ...]: redis-benchmark asks for save and
// appendonly.
func replyConfig(c *conn, cmd *command) {
	switch {
	case !cmd.argumentIs(1, "get"):
		complainSubcommand(c, cmd)
		return
	case len(cmd.args) < 3:
		complainArguments(c, cmd)
		return
	}
	var found []string
	for _, s := range [...][2]string{{"appendonly", "no"}, {"databases", strconv.Itoa(databases)}, {"save", ""}} {
		for i := 2; i < len(cmd.args); i++ {
			if ok, err := path.Match(strings.ToLower(aliasBytes(cmd.argument(i))), s[0]); ok && err == nil {
				found = append(found, s[:]...)
				break
			}
		}
	}
	c.replies.out = appendMap(c.replies.out, c.replies.proto, len(found)/2)
	for _, word := range found {
		c.replies.out = appendBulk(c.replies.out, word)
	}
}
