package rows

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

// schema has the migrations, each below a line of its number.
//
//go:embed schema.sql
var schema string

// migrations change the tables, the n-th from version n to n+1.
var migrations = splitMigrations(schema)

// splitMigrations returns the statements of each migration.
func splitMigrations(sql string) (all [][]string) {
	for _, migration := range strings.Split(sql, "\n-- migration ")[1:] {
		_, statements, _ := strings.Cut(strings.TrimSuffix(migration, ";\n"), "\n")
		all = append(all, strings.Split(statements, ";\n"))
	}
	return all
}

// SchemaVersion is the number of the last migration.
func SchemaVersion() int { return len(migrations) }

// Migrate makes the tables, or changes them to what this version needs, and leaves
// alone those of a newer one: the error is ErrNewer then. Several may do so at a
// time.
func Migrate(ctx context.Context, db Database) error {
	d := db.Dialect()
	err := UpdateRows(ctx, db, func(in *Statements) {
		if d.Lock != "" {
			in.ReadRows(func(Row) {}, d.Lock)
		}
		migrate(in, d)
	})
	if err != nil {
		return fmt.Errorf("analytics: %s: %w", d.Kind, err)
	}
	return nil
}

func migrate(in *Statements, d Dialect) {
	in.Execute(`CREATE TABLE IF NOT EXISTS weir_schema (version BIGINT NOT NULL)`)
	var version int64
	in.ReadRows(func(r Row) { version = r.Int(0) }, `SELECT MAX(version) FROM weir_schema`)
	if version > int64(len(migrations)) {
		in.RecordFailure(fmt.Errorf("%w: it has schema %d, this one knows %d: run the newer version, or give another database", ErrNewer, version, len(migrations)))
	}
	words := strings.NewReplacer("{serial}", d.Serial, "{bytes}", d.Bytes, "{rows}", d.Rows)
	for ; version < int64(len(migrations)) && in.err == nil; version++ {
		for _, statement := range migrations[version] {
			in.Execute(words.Replace(statement))
		}
		if in.err != nil {
			in.err = fmt.Errorf("migration %d: %w", version+1, in.err)
		}
		in.Execute(`INSERT INTO weir_schema (version) VALUES ($1)`, version+1)
	}
}
