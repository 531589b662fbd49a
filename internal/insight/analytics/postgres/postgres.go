// Package postgres keeps what analytics tell in PostgreSQL 12 or later, which any
// number of processes may share.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

const (
	// maxConnections is how many connections there are at most.
	maxConnections = 8
	// connectTimeout bounds an attempt to connect, statementTimeout is how long a
	// statement may take unless the URL says so.
	connectTimeout, statementTimeout = 5 * time.Second, 30 * time.Second
)

// DB is a database. Safe for concurrent use. Make it with Open.
type DB struct{ pool *pgxpool.Pool }

var _ rows.Database = (*DB)(nil)

// Open connects to the database at a URL, postgres://USER:PASSWORD@HOST:PORT/NAME
// with the parameters of libpq (sslmode, search_path and others), and makes the
// tables if there are none.
func Open(ctx context.Context, url string) (*DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	config.MaxConns, config.MinConns = maxConnections, 0
	config.ConnConfig.ConnectTimeout = connectTimeout
	for name, value := range map[string]string{"application_name": "weir analytics", "statement_timeout": fmt.Sprint(statementTimeout.Milliseconds())} {
		if _, isSet := config.ConnConfig.RuntimeParams[name]; !isSet {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db := &DB{pool: pool}
	if err := rows.Migrate(ctx, db); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return db, nil
}

// lock is an advisory lock's number: "weir".
const lock = 0x77656972

// Dialect implements rows.Database.
func (db *DB) Dialect() rows.Dialect {
	return rows.Dialect{
		Kind: "postgres", Serial: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", Bytes: "BYTEA",
		Lock: fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lock),
	}
}

// Update implements rows.Database.
func (db *DB) Update(ctx context.Context, f func(rows.Tx) error) error {
	return db.transaction(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
}

// View implements rows.Database.
func (db *DB) View(ctx context.Context, f func(rows.Tx) error) error {
	return db.transaction(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f)
}

func (db *DB) transaction(ctx context.Context, opt pgx.TxOptions, f func(rows.Tx) error) error {
	return wrapErr(pgx.BeginTxFunc(ctx, db.pool, opt, func(t pgx.Tx) error { return f(&tx{ctx, t}) }))
}

// Close implements rows.Database. It waits for transactions that are under
// way.
func (db *DB) Close() error {
	db.pool.Close()
	return nil
}

// tx is a transaction.
type tx struct {
	ctx context.Context
	tx  pgx.Tx
}

// maxPipeline is how many statements are sent before their answers are read.
const maxPipeline = 2000

// Each implements rows.Tx. The statements of many arguments go out together.
func (t *tx) Each(query string, args [][]any, row func(int, rows.Row) error) error {
	for from := 0; from < len(args); from += maxPipeline {
		var batch pgx.Batch
		for i, list := range args[from:min(from+maxPipeline, len(args))] {
			batch.Queue(query, list...).Query(func(rows pgx.Rows) error { return readAll(rows, from+i, row) })
		}
		if err := t.tx.SendBatch(t.ctx, &batch).Close(); err != nil { // which reads the answers
			return err
		}
	}
	return nil
}

// readAll calls row, if there is one, with each row of an answer.
func readAll(rows pgx.Rows, i int, row func(int, rows.Row) error) error {
	for rows.Next() {
		if row == nil {
			continue
		}
		values, err := rows.Values()
		if err == nil {
			err = callWithLine(row, i, values)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// line is a row of an answer.
type line []any

func (l line) Int(column int) int64 {
	switch v := l[column].(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int16:
		return int64(v)
	case nil:
		return 0
	}
	panic(wrongType{column, l[column]})
}

func (l line) Text(column int) string  { return valueOf[string](l, column) }
func (l line) Bytes(column int) []byte { return valueOf[[]byte](l, column) }

// valueOf returns a column of a type, zero for a NULL.
func valueOf[T any](l line, column int) T {
	v, ok := l[column].(T)
	if !ok && l[column] != nil {
		panic(wrongType{column, l[column]})
	}
	return v
}

// wrongType is a value that a statement returns as another type than it is read as: a
// CAST is missing from it.
type wrongType struct {
	column int
	value  any
}

func (w wrongType) Error() string {
	return fmt.Sprintf("postgres: column %d is of type %T: CAST it in the statement to BIGINT, TEXT or BYTEA", w.column, w.value)
}

// callWithLine calls row with a line, and returns what was wrong with the types that it read.
func callWithLine(row func(int, rows.Row) error, i int, l line) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case wrongType:
			err = p
		default:
			panic(p)
		}
	}()
	return row(i, l)
}

// failure is an error of PostgreSQL, with its code.
type failure struct {
	error
	code string
}

// wrapErr returns an error as the service reads it.
func wrapErr(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return failure{err, e.Code}
	}
	return err
}

func (f failure) Unwrap() error { return f.error }

// Refuses reports whether the values are the reason: a data exception (class 22, such as
// text that is no UTF-8 or a number out of range), a constraint (23), or a value that is
// larger than any may be (54).
func (f failure) Refuses() bool {
	return !f.Again() && slices.Contains([]string{"22", "23", "54"}, f.code[:min(len(f.code), 2)])
}

// Again reports whether another transaction was in the way: a deadlock, a
// serialization failure, or a row or table that was made at the same time.
func (f failure) Again() bool {
	return slices.Contains([]string{"40001", "40P01", "55P03", "23505", "42P07"}, f.code)
}
