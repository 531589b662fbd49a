package rows

// ClientKey is a client under a limit, as the database numbers limits.
type ClientKey struct {
	Limit  int64
	Client string
}

// ClientLine is a row of a client, with the columns that a question asked for.
type ClientLine struct {
	ClientKey
	At int64
	Cells
}

// ClientColumns are the columns that a question needs.
type ClientColumns struct {
	Cells, Words []int
	// Merged: it needs the rows of merged clients too.
	Merged bool
	// Condition is what the rows that it needs have. Empty means all.
	Condition string
}

// Columns returns the columns for a statement, with those of the limit, the time and the
// client, and what reads a row of it.
func (c *ClientColumns) Columns() (list string, read func(*ClientLine, Row)) {
	list = "limit_id, at, client"
	for _, cell := range c.Cells {
		list += ", " + CellColumns[cell].name
	}
	for _, word := range c.Words {
		list += ", " + wordColumns[word]
	}
	return list, func(l *ClientLine, row Row) {
		l.Limit, l.At, l.Client = row.Int(0), row.Int(1), row.Text(2)
		for i, cell := range c.Cells {
			l.N[cell] = row.Int(3 + i)
		}
		for i, word := range c.Words {
			l.Words[word] = row.Text(3 + len(c.Cells) + i)
		}
	}
}

// AllColumns are all.
var AllColumns = func() (c ClientColumns) {
	for cell := range NumCells {
		c.Cells = append(c.Cells, cell)
	}
	for word := range numWords {
		c.Words = append(c.Words, word)
	}
	return c
}()
