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
	if t.spoiled {
		// Of a transaction that fails nothing need be kept.
		c.out = appendSimple(c.out, "QUEUED")
		return
	}
	size := len(t.raw) + len(cmd.raw)
	if size > maxCommand || t.commands == maxArgs || !c.s.grow(&t.large, large(2*size)) {
		t.spoiled, t.raw = true, nil
		c.s.grow(&t.large, 0)
		c.complain("ERR transaction is too large")
		return
	}
	t.raw = append(t.raw, cmd.raw...)
	t.commands++
	c.out = appendSimple(c.out, "QUEUED")
}

// spoil makes a transaction fail whose command was wrong.
func (c *conn) spoil() {
	if c.tx != nil {
		c.tx.spoiled = true
	}
}

// endTransaction forgets what was gathered.
func (c *conn) endTransaction() {
	if c.tx != nil {
		c.s.grow(&c.tx.large, 0)
		c.tx = nil
	}
}

func (c *conn) exec(*command) {
	t := c.tx
	c.tx = nil
	if t != nil {
		defer c.s.grow(&t.large, 0)
	}
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
		// They were read before: nothing can be wrong with them.
		if done, err := p.next(t.raw[from:], lateBounds); !done || err != nil {
			panic("resp: a gathered command cannot be read")
		}
		c.do(&command{raw: t.raw[from : from+int(p.pos)], args: p.args, inline: p.inline})
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
	c.endTransaction()
	c.ok()
}
