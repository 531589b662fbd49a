package resp

// A transaction is what MULTI has gathered. Its commands are carried out in
// order, and not one of this connection's between them; those of others may be.
type transaction struct {
	raw      []byte
	commands int
	// spoiled: a command could not be gathered, and none is carried out.
	spoiled bool
}

func (c *conn) multi(*command) {
	if c.tx != nil {
		c.complain("ERR MULTI calls can not be nested")
		return
	}
	c.tx = &transaction{}
	c.ok()
}

// gather adds a command to the transaction.
func (c *conn) gather(cmd *command) {
	t := c.tx
	size := len(t.raw)
	for i := range cmd.args {
		size += len(cmd.at(i)) + maxHeader
	}
	if size > maxCommand || t.commands == maxArgs {
		t.spoiled = true
		c.complain("ERR transaction is too large")
		return
	}
	t.raw = appendArray(t.raw, len(cmd.args))
	for i := range cmd.args {
		t.raw = appendBulk(t.raw, cmd.at(i))
	}
	t.commands++
	c.out = appendSimple(c.out, "QUEUED")
}

// spoil makes a transaction fail whose command was wrong.
func (c *conn) spoil() {
	if c.tx != nil {
		c.tx.spoiled = true
	}
}

func (c *conn) exec(*command) {
	t := c.tx
	c.tx = nil
	switch {
	case t == nil:
		c.complain("ERR EXEC without MULTI")
		return
	case t.spoiled:
		c.complain("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	c.out = appendArray(c.out, t.commands)
	var p parser
	for from := 0; from < len(t.raw) && !c.lost; {
		// They were written here: nothing can be wrong with them.
		if done, err := p.next(t.raw[from:], lateBounds); !done || err != nil {
			panic("resp: a gathered command cannot be read")
		}
		c.do(&command{raw: t.raw[from : from+int(p.pos)], args: p.args})
		from += int(p.pos)
		p.reset()
	}
	c.decide() // before its texts are gone
}

func (c *conn) discard(*command) {
	if c.tx == nil {
		c.complain("ERR DISCARD without MULTI")
		return
	}
	c.tx = nil
	c.ok()
}
