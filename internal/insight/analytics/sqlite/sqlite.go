// Package sqlite keeps what analytics tell in SQLite: in a file, or in the memory
// of the process.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Memory is the path of a database in the memory of the process.
const Memory = ":memory:"

const (
	// readers is how many questions are answered at a time; further ones wait. In memory
	// there is one, which waits for writes too.
	readers = 4
	// busyTimeout is how long a transaction waits for another process's before it fails,
	// and can be tried again.
	busyTimeout = time.Second
	// maxMemory is the most that a database in memory can take, in bytes; beyond it a
	// transaction fails. The service forgets what is old well before.
	maxMemory = 256 << 20
)

// DB is a database. Safe for concurrent use. Make it with Open.
type DB struct {
	path   string
	memory bool
	// writer and readers hold the connections that nobody uses. In memory there is
	// one connection, the writer.
	writer, readers chan *sqlite.Conn
	closed          chan struct{}
	once            sync.Once
	// conns is how many connections there are. Only Open changes it.
	conns int
}

var _ rows.Database = (*DB)(nil)

// ErrClosed is returned by a database that is closed.
var ErrClosed = errors.New("sqlite: the database is closed")

// Open opens the database at a path, and makes the file and the tables if there
// are none. The folder must be there.
func Open(ctx context.Context, path string) (*DB, error) {
	if path == "" {
		return nil, errors.New("sqlite: the path is missing: give :memory: or that of a file")
	}
	db := &DB{path: path, memory: path == Memory, closed: make(chan struct{}),
		writer: make(chan *sqlite.Conn, 1), readers: make(chan *sqlite.Conn, readers)}
	if err := db.connectAll(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %s: %w", path, err), db.Close())
	}
	return db, nil
}

func (db *DB) connectAll(ctx context.Context) error {
	if !db.memory {
		// A path that begins with file: or has a question mark is a path.
		path, err := filepath.Abs(db.path)
		if err != nil {
			return err
		}
		db.path = path
		if err := private(path); err != nil {
			return err
		}
	}
	if err := db.connect(ctx, db.writer); err != nil {
		return err
	}
	if err := rows.Migrate(ctx, db); err != nil || db.memory {
		return err
	}
	for range readers {
		if err := db.connect(ctx, db.readers); err != nil {
			return err
		}
	}
	return nil
}

// private makes the file of a database, if there is none, and lets nobody but its owner
// read it: it has keys and addresses of clients. SQLite gives the files beside it the same
// permissions when it makes them.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file: give the path of a file")
	}
	if err := f.Chmod(0o600); err != nil {
		return fmt.Errorf("others may read it, and that cannot be changed: %w", err)
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.Chmod(path+suffix, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// pageSize is SQLite's, in bytes.
const pageSize = 4096

// connect puts a connection into a pool.
func (db *DB) connect(ctx context.Context, pool chan<- *sqlite.Conn) error {
	c, err := sqlite.OpenConn(db.path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return err
	}
	c.SetBusyTimeout(busyTimeout)
	pragmas := []string{"journal_mode = WAL", "synchronous = NORMAL", "journal_size_limit = 67108864", "temp_store = MEMORY"}
	if db.memory {
		pragmas = []string{fmt.Sprintf("max_page_count = %d", maxMemory/pageSize), "temp_store = MEMORY"}
	}
	for _, p := range pragmas {
		if err := db.patient(ctx, func() error { return sqlitex.ExecuteTransient(c, "PRAGMA "+p, nil) }); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", p, err), c.Close())
		}
	}
	db.conns++
	pool <- c
	return nil
}

// opening is how long a connection that is made waits for others that change the
// file, which they do once.
const opening = 10 * time.Second

// patient runs f until no other connection is in its way. SQLite itself waits only
// for its first lock: a file's journal is changed with a second one, and while
// another does the same it fails at once, whatever the busy timeout.
func (db *DB) patient(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	for {
		err := wrapErr(f())
		if err == nil || !rows.MayRunAgain(err) || !backoff.Sleep(ctx, time.Millisecond) {
			return err
		}
	}
}

// Dialect implements rows.Database.
func (db *DB) Dialect() rows.Dialect {
	d := rows.Dialect{
		Kind: "sqlite", Serial: "INTEGER PRIMARY KEY AUTOINCREMENT", Bytes: "BLOB", Rows: "WITHOUT ROWID",
		// Without statistics SQLite takes the primary key, which begins with the time.
		ByClient: "INDEXED BY clients_client",
		Defaults: rows.Bounds{MaxBytes: 8 << 30},
	}
	if db.memory {
		const day = 24 * time.Hour
		d.Kind = "memory"
		d.Defaults = rows.Bounds{
			KeepMinutes: day, KeepHours: day, KeepDays: day, KeepClientMinutes: day, KeepClientHours: day, KeepSeen: 2 * day,
			MaxClients: 200, MaxArrivals: 50_000, MaxBytes: maxMemory / 2,
		}
	}
	return d
}

// Update implements rows.Database.
func (db *DB) Update(ctx context.Context, f func(rows.Tx) error) error {
	c, err := db.takeConnection(ctx, db.writer)
	if err != nil {
		return err
	}
	defer func() { db.writer <- c }()
	return db.transaction(ctx, c, "BEGIN IMMEDIATE", true, f)
}

// View implements rows.Database.
func (db *DB) View(ctx context.Context, f func(rows.Tx) error) error {
	pool := db.readers
	if db.memory {
		pool = db.writer
	}
	c, err := db.takeConnection(ctx, pool)
	if err != nil {
		return err
	}
	defer func() { pool <- c }()
	return db.transaction(ctx, c, "BEGIN", false, f)
}

// takeConnection returns a connection that nobody uses.
func (db *DB) takeConnection(ctx context.Context, pool chan *sqlite.Conn) (*sqlite.Conn, error) {
	select {
	case <-db.closed:
		return nil, ErrClosed
	default:
	}
	select {
	case c := <-pool:
		return c, nil
	case <-db.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Used implements rows.Database.
func (db *DB) Used(ctx context.Context) (n int64, err error) {
	err = db.View(ctx, func(tx rows.Tx) error {
		return tx.Each(`SELECT (p.page_count - f.freelist_count) * s.page_size
			FROM pragma_page_count() AS p, pragma_freelist_count() AS f, pragma_page_size() AS s`,
			[][]any{nil}, func(_ int, r rows.Row) error { n = r.Int(0); return nil })
	})
	return n, err
}

// Close implements rows.Database. It waits for transactions that are under
// way.
func (db *DB) Close() error {
	var errs []error
	db.once.Do(func() {
		close(db.closed)
		for range db.conns {
			var c *sqlite.Conn
			select {
			case c = <-db.writer:
			case c = <-db.readers:
			}
			errs = append(errs, c.Close())
		}
	})
	return errors.Join(errs...)
}
