package rows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

// Database keeps rows. Safe for concurrent use.
//
// Statements are of the SQL that SQLite and PostgreSQL have in common, with
// parameters $1, $2 and so on, which first appear in this order. Values are int64,
// string and []byte. Text is UTF-8 without zero bytes.
type Database interface {
	// Update runs f in a transaction: all that it does is done, or nothing, also if
	// the process ends before Update has returned. What another Update changes in
	// the meantime it sees either not at all or entirely, and a row that it has
	// changed is not changed by others until it ends. With an error for which
	// Again is true it may be run again, which calls f anew.
	Update(ctx context.Context, f func(Tx) error) error
	// View runs f on one state of the rows, which f does not change.
	View(ctx context.Context, f func(Tx) error) error
	// Dialect says what is special about its SQL.
	Dialect() Dialect
	// Used returns how many bytes the rows take.
	Used(ctx context.Context) (int64, error)
	// Close ends it. Transactions under way must have ended.
	Close() error
}

// Dialect is what the databases do not have in common.
type Dialect struct {
	// Kind names the database: memory, sqlite or postgres.
	Kind string
	// Serial is the type of a column that numbers rows, Bytes that of bytes, Rows what
	// follows a table whose rows are to lie in the order of its primary key.
	Serial, Bytes, Rows string
	// Lock is a statement that makes other migrations wait until the transaction ends.
	// Empty where transactions do so anyway.
	Lock string
	// ByClient follows the table clients in a statement that looks for one client: it
	// says by which index, where the planner would read all of an hour instead.
	ByClient string
	// Defaults are the service's where its options are zero.
	Defaults Bounds
}

// Tx is a transaction. It is valid until the function returns that was given it.
type Tx interface {
	// Each runs a statement once with each list of arguments, in their order, and
	// calls row, if there is one, with each row that the i-th has for an answer.
	Each(query string, args [][]any, row func(i int, r Row) error) error
}

// Row is a row of an answer. It is valid until the function returns that was given
// it; what it returns stays valid. A NULL is zero, "" or nil.
type Row interface {
	Int(column int) int64
	Text(column int) string
	Bytes(column int) []byte
}

// ErrNewer is returned for a database that a newer version has changed.
var ErrNewer = errors.New("the database was changed by a newer version")

// again is an error of a database that says whether a transaction may be run again.
type again interface{ Again() bool }

// MayRunAgain reports whether an error of a Database is one that may be gone when the
// transaction is run again at once: another one was in its way.
func MayRunAgain(err error) bool {
	var a again
	return errors.As(err, &a) && a.Again()
}

// refuses is an error of a database that says whether it is about the values alone.
type refuses interface{ Refuses() bool }

// Refuses reports whether an error of a Database is one that the values of a statement
// have made, and make whenever it is run: one is out of range, too long, or against a
// constraint.
func Refuses(err error) bool {
	var r refuses
	return errors.As(err, &r) && r.Refuses()
}

// Statements are those of a transaction, until one fails. Those after it do nothing and have
// no rows, so that who makes them need not look at each failure: the transaction ends with
// the first.
type Statements struct {
	tx  Tx
	err error
}

// RunStatements returns what statements do as what a transaction does.
func RunStatements(f func(*Statements)) func(Tx) error {
	return func(tx Tx) error {
		s := &Statements{tx: tx}
		f(s)
		return s.err
	}
}

// maxTries is how often a transaction is tried again that others are in the way
// of, before a caller that cannot wait is told.
const maxTries = 20

// UpdateRows runs f in a transaction, again while others are in its way.
func UpdateRows(ctx context.Context, db Database, f func(*Statements)) error {
	wait := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for tries := 1; ; tries++ {
		err := db.Update(ctx, RunStatements(f))
		if err == nil || !MayRunAgain(err) || tries == maxTries || !wait.Sleep(ctx) {
			return err
		}
	}
}

// ViewRows runs f on one state of the rows.
func ViewRows(ctx context.Context, db Database, f func(*Statements)) error {
	return db.View(ctx, RunStatements(f))
}

// RecordFailure notes a failure, if it is the first.
func (s *Statements) RecordFailure(err error) {
	if s.err == nil {
		s.err = err
	}
}

// EachRow is Tx.Each.
func (s *Statements) EachRow(statement string, args [][]any, row func(i int, r Row) error) {
	if s.err == nil {
		s.err = s.tx.Each(statement, args, row)
	}
}

// WriteRows is EachRow on a table, which a failure names.
func (s *Statements) WriteRows(t Table, statement string, args [][]any, row func(i int, r Row) error) {
	if s.err != nil {
		return
	}
	if err := s.tx.Each(statement, args, row); err != nil {
		s.err = fmt.Errorf("%s: %w", t.Name, err)
	}
}

// HasFailed reports whether a statement has failed.
func (s *Statements) HasFailed() bool { return s.err != nil }

// Execute runs a statement once.
func (s *Statements) Execute(statement string, args ...any) { s.EachRow(statement, [][]any{args}, nil) }

// ReadRows runs a statement once and calls row with each row of its answer.
func (s *Statements) ReadRows(row func(Row), statement string, args ...any) {
	s.ReadRowsErr(func(r Row) error { row(r); return nil }, statement, args...)
}

// ReadRowsErr is query with rows that may have an error, which is a failure.
func (s *Statements) ReadRowsErr(row func(Row) error, statement string, args ...any) {
	s.EachRow(statement, [][]any{args}, func(_ int, r Row) error { return row(r) })
}
