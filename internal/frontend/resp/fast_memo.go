package resp

import "bytes"

// A memo is the last CL.THROTTLE of a connection but for its key, and the limit
// that it named: most clients name the same numbers again and again, and keys of
// one length.
type memo struct {
	head, tail [96]byte // before the key, and after it
	nhead, n   int
	key        int // its length
	limit      *numbered
}

// askAgain takes the next command if it is that of the memo, for whichever key. It takes
// a fifth of what reading the command takes (BenchmarkPipeline).
func (c *conn) askAgain() bool {
	m, r := &c.memo, &c.reader
	b, length := r.in[r.from:r.to], m.nhead+m.key+m.n
	if m.limit == nil || m.limit.db != c.session.db || !r.parser.isFresh() || len(b) < length ||
		!bytes.Equal(b[:m.nhead], m.head[:m.nhead]) || !bytes.Equal(b[m.nhead+m.key:length], m.tail[:m.n]) {
		return false
	}
	c.batch.addQuestion(ask{key: aliasBytes(b[m.nhead : m.nhead+m.key]), by: m.limit, cost: 1})
	r.skipCommand(length)
	return true
}

// rememberCommand makes m the memo of a command.
func (m *memo) rememberCommand(cmd *command, l *numbered) {
	head, tail := cmd.raw[:cmd.args[1].from], cmd.raw[cmd.args[1].to:]
	if cmd.inline || len(head) > len(m.head) || len(tail) > len(m.tail) {
		return
	}
	m.nhead, m.key, m.n = copy(m.head[:], head), len(cmd.argument(1)), copy(m.tail[:], tail)
	m.limit = l
}
