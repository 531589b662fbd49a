package resp

// A transaction is what MULTI has gathered. Its commands are carried out in
// order, and not one of this connection's between them; those of others may be.
type transaction struct {
	raw      []byte
	commands int
	large    int64 // what of raw counts as large
	// spoiled: a command could not be gathered, and none is carried out.
	spoiled bool
}

func beginTransaction(c *conn, _ *command) {
	if c.tx != nil {
		c.complain("ERR MULTI calls can not be nested")
		return
	}
	c.tx = &transaction{}
	c.replyOK()
}

// queueCommand adds a command to the transaction.
func queueCommand(c *conn, cmd *command) {
	t := c.tx
	// Of a transaction that fails nothing need be kept.
	if !t.spoiled {
		size := len(t.raw) + len(cmd.raw)
		if size > maxCommand || t.commands == maxArgs || !c.s.resizeLarge(&t.large, largePart(2*size)) {
			t.spoiled, t.raw = true, nil
			c.s.resizeLarge(&t.large, 0)
			c.complain("ERR transaction is too large")
			return
		}
		t.raw = append(t.raw, cmd.raw...)
		t.commands++
	}
	c.replies.out = appendSimple(c.replies.out, "QUEUED")
}

// spoil makes a transaction fail whose command was wrong; nil is none.
func (t *transaction) spoil() {
	if t != nil {
		t.spoiled = true
	}
}

// endTransaction forgets what was gathered.
func (c *conn) endTransaction() {
	if c.tx != nil {
		c.s.resizeLarge(&c.tx.large, 0)
		c.tx = nil
	}
}

func discardTransaction(c *conn, _ *command) {
	if c.tx == nil {
		c.complain("ERR DISCARD without MULTI")
		return
	}
	c.endTransaction()
	c.replyOK()
}
