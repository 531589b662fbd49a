package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// tx is a transaction on a connection.
type tx struct {
	conn *sqlite.Conn
	// lasting statements are kept prepared: those of writes, which are few and come
	// again.
	lasting bool
}

// transaction runs f between begin and a commit. The connection is as before when
// it returns, whatever happened.
func (db *DB) transaction(ctx context.Context, c *sqlite.Conn, begin string, lasting bool, f func(rows.Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.SetInterrupt(ctx.Done())
	defer c.SetInterrupt(nil)
	if err := sqlitex.Execute(c, begin, nil); err != nil {
		return wrapErr(err)
	}
	defer func() {
		if c.AutocommitEnabled() {
			return // it was committed, or SQLite has rolled it back itself
		}
		// What was interrupted must still be rolled back.
		c.SetInterrupt(nil)
		if e := sqlitex.Execute(c, "ROLLBACK", nil); e != nil {
			err = errors.Join(err, wrapErr(e))
		}
	}()
	if err := f(&tx{conn: c, lasting: lasting}); err != nil {
		return err
	}
	return wrapErr(sqlitex.Execute(c, "COMMIT", nil))
}

// Each implements rows.Tx.
func (t *tx) Each(query string, args [][]any, row func(int, rows.Row) error) (err error) {
	if len(args) == 0 {
		return nil
	}
	s, err := t.prepare(query)
	if err != nil {
		return wrapErr(err)
	}
	if !t.lasting {
		defer func() {
			if e := s.Finalize(); err == nil {
				err = wrapErr(e)
			}
		}()
	}
	for i, list := range args {
		if err := t.runStatement(s, list, i, row); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) prepare(query string) (*sqlite.Stmt, error) {
	if t.lasting {
		return t.conn.Prepare(query)
	}
	s, _, err := t.conn.PrepareTransient(query)
	return s, err
}

func (t *tx) runStatement(s *sqlite.Stmt, args []any, i int, row func(int, rows.Row) error) (err error) {
	defer func() {
		// Reset repeats the error of a step that failed.
		if e := s.Reset(); err == nil {
			err = wrapErr(e)
		}
	}()
	for n, a := range args {
		switch v := a.(type) {
		case int64:
			s.BindInt64(n+1, v)
		case string:
			s.BindText(n+1, v)
		case []byte:
			s.BindBytes(n+1, v)
		default:
			return fmt.Errorf("sqlite: argument %d is of type %T: int64, string and []byte are known", n+1, a)
		}
	}
	for {
		more, err := s.Step()
		if err != nil {
			return wrapErr(err)
		}
		if !more {
			return nil
		}
		if row == nil {
			continue
		}
		if err := row(i, line{s}); err != nil {
			return err
		}
	}
}

// line is a row of an answer.
type line struct{ s *sqlite.Stmt }

func (l line) Int(column int) int64   { return l.s.ColumnInt64(column) }
func (l line) Text(column int) string { return l.s.ColumnText(column) }
func (l line) Bytes(column int) []byte {
	b := make([]byte, l.s.ColumnLen(column))
	l.s.ColumnBytes(column, b)
	return b
}

// failure is an error of SQLite.
type failure struct{ error }

// wrapErr returns an error of SQLite as the service reads it.
func wrapErr(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

func (f failure) Unwrap() error { return f.error }

// Refuses reports whether the values are the reason: a constraint, a type, or a value that
// is larger than any may be.
func (f failure) Refuses() bool {
	switch sqlite.ErrCode(f.error).ToPrimary() {
	case sqlite.ResultConstraint, sqlite.ResultMismatch, sqlite.ResultTooBig:
		return true
	}
	return false
}

// Again reports whether another process was in the way.
func (f failure) Again() bool {
	code := sqlite.ErrCode(f.error).ToPrimary()
	return code == sqlite.ResultBusy || code == sqlite.ResultLocked
}
