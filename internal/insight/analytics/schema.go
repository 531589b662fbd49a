package analytics

import (
	"context"
	"fmt"
	"strings"
)

// migrations change the tables, the n-th from version n to n+1. One that was
// released is not changed any more. {serial}, {bytes} and {rows} are the dialect's.
var migrations = [][]string{
	{
		`CREATE TABLE limits (
			id {serial}, domain TEXT NOT NULL, rule TEXT NOT NULL, name TEXT NOT NULL, algorithm TEXT NOT NULL,
			allowance BIGINT NOT NULL, period_ms BIGINT NOT NULL, burst BIGINT NOT NULL,
			first BIGINT NOT NULL, last BIGINT NOT NULL,
			UNIQUE (domain, rule, name, algorithm, allowance, period_ms, burst))`,
		`CREATE TABLE sources (
			id {serial}, source TEXT NOT NULL UNIQUE, first BIGINT NOT NULL, last BIGINT NOT NULL,
			events BIGINT NOT NULL, highest BIGINT NOT NULL, late BIGINT NOT NULL)`,
		`CREATE TABLE seen (
			source_id BIGINT NOT NULL, block BIGINT NOT NULL, last BIGINT NOT NULL, bits {bytes} NOT NULL,
			PRIMARY KEY (source_id, block)) {rows}`,
		`CREATE TABLE rollups (
			grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL, outcome TEXT NOT NULL, n BIGINT NOT NULL,
			PRIMARY KEY (grain, at, limit_id, node, outcome)) {rows}`,
		createClients(),
		`CREATE INDEX clients_client ON clients (grain, client, limit_id, at)`,
		`CREATE TABLE sketches (
			grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, kind TEXT NOT NULL, bits {bytes} NOT NULL,
			PRIMARY KEY (grain, at, limit_id, kind)) {rows}`,
		`CREATE TABLE words (
			at BIGINT NOT NULL, limit_id BIGINT NOT NULL, kind TEXT NOT NULL, word TEXT NOT NULL,
			allowed BIGINT NOT NULL, refused BIGINT NOT NULL, shadow BIGINT NOT NULL, delayed BIGINT NOT NULL,
			PRIMARY KEY (at, limit_id, kind, word)) {rows}`,
		`CREATE TABLE arrivals (
			id {serial}, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, client TEXT NOT NULL, outcome TEXT NOT NULL,
			every BIGINT NOT NULL, cut BIGINT NOT NULL, n BIGINT NOT NULL, data {bytes} NOT NULL)`,
		`CREATE INDEX arrivals_at ON arrivals (limit_id, at)`,
		`CREATE INDEX arrivals_age ON arrivals (at)`,
		`CREATE TABLE losses (
			source_id BIGINT NOT NULL, at BIGINT NOT NULL,
			dropped BIGINT NOT NULL, discarded BIGINT NOT NULL, rollups BIGINT NOT NULL, failed BIGINT NOT NULL,
			PRIMARY KEY (source_id, at)) {rows}`,
		`CREATE TABLE late (at BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL)`,
		`CREATE TABLE labels (
			id {serial}, domain TEXT NOT NULL, rule TEXT NOT NULL, name TEXT NOT NULL, client TEXT NOT NULL,
			label TEXT NOT NULL, reason TEXT NOT NULL, who TEXT NOT NULL, at BIGINT NOT NULL, expires BIGINT NOT NULL)`,
		`CREATE INDEX labels_client ON labels (client)`,
	},
	{
		`CREATE TABLE rollups_2 (
			grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL, region TEXT NOT NULL, outcome TEXT NOT NULL, n BIGINT NOT NULL,
			PRIMARY KEY (grain, at, limit_id, node, region, outcome)) {rows}`,
		`INSERT INTO rollups_2 (grain, at, limit_id, node, region, outcome, n) SELECT grain, at, limit_id, node, '', outcome, n FROM rollups`,
		`DROP TABLE rollups`,
		`ALTER TABLE rollups_2 RENAME TO rollups`,
		`ALTER TABLE sources ADD COLUMN region TEXT NOT NULL DEFAULT ''`,
		`CREATE TABLE latencies (
			grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL, region TEXT NOT NULL, bits {bytes} NOT NULL,
			PRIMARY KEY (grain, at, limit_id, node, region)) {rows}`,
	},
	{
		`CREATE TABLE answered (
			grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL, region TEXT NOT NULL, bits {bytes} NOT NULL,
			PRIMARY KEY (grain, at, limit_id, node, region)) {rows}`,
	},
	{
		`CREATE TABLE IF NOT EXISTS requests (
			grain BIGINT NOT NULL, at BIGINT NOT NULL, domain TEXT NOT NULL, node TEXT NOT NULL, region TEXT NOT NULL, outcome TEXT NOT NULL, n BIGINT NOT NULL,
			PRIMARY KEY (grain, at, domain, node, region, outcome)) {rows}`,
		// For what is deleted by its age.
		`CREATE INDEX IF NOT EXISTS seen_last ON seen (last)`,
		`CREATE INDEX IF NOT EXISTS losses_at ON losses (at)`,
		`CREATE INDEX IF NOT EXISTS labels_expires ON labels (expires)`,
		`CREATE INDEX IF NOT EXISTS sources_last ON sources (last)`,
		`CREATE INDEX IF NOT EXISTS limits_last ON limits (last)`,
	},
	{
		// Rows of clients by columns, see blocks.go. They are written from those that there are.
		`CREATE TABLE IF NOT EXISTS client_blocks (
			grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, version BIGINT NOT NULL, state BIGINT NOT NULL,
			PRIMARY KEY (grain, at, limit_id)) {rows}`,
		`CREATE TABLE IF NOT EXISTS client_columns (
			grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, name TEXT NOT NULL, bits {bytes} NOT NULL,
			PRIMARY KEY (grain, at, limit_id, name)) {rows}`,
	},
}

func createClients() string {
	var b strings.Builder
	b.WriteString("CREATE TABLE clients (grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, client TEXT NOT NULL")
	for _, c := range cellColumns {
		b.WriteString(", " + c.name + " BIGINT NOT NULL")
	}
	for _, w := range wordColumns {
		b.WriteString(", " + w + " TEXT NOT NULL")
	}
	b.WriteString(", PRIMARY KEY (grain, at, limit_id, client)) {rows}")
	return b.String()
}

// SchemaVersion is the number of the last migration.
func SchemaVersion() int { return len(migrations) }

// Migrate makes the tables, or changes them to what this version needs, and leaves
// alone those of a newer one: the error is ErrNewer then. Several may do so at a
// time.
func Migrate(ctx context.Context, db Database) error {
	d := db.Dialect()
	err := updateRows(ctx, db, func(tx Tx) error {
		if d.Lock != "" {
			if err := tx.Each(d.Lock, [][]any{nil}, func(int, Row) error { return nil }); err != nil {
				return err
			}
		}
		return migrate(tx, d)
	})
	if err != nil {
		return fmt.Errorf("analytics: %s: %w", d.Kind, err)
	}
	return nil
}

func migrate(tx Tx, d Dialect) error {
	if err := exec(tx, `CREATE TABLE IF NOT EXISTS weir_schema (version BIGINT NOT NULL)`); err != nil {
		return err
	}
	var version int64
	if err := query(tx, func(r Row) { version = r.Int(0) }, `SELECT MAX(version) FROM weir_schema`); err != nil {
		return err
	}
	if version > int64(len(migrations)) {
		return fmt.Errorf("%w: it has schema %d, this one knows %d: run the newer version, or give another database", ErrNewer, version, len(migrations))
	}
	words := strings.NewReplacer("{serial}", d.Serial, "{bytes}", d.Bytes, "{rows}", d.Rows)
	for ; version < int64(len(migrations)); version++ {
		for _, statement := range migrations[version] {
			if err := exec(tx, words.Replace(statement)); err != nil {
				return fmt.Errorf("migration %d: %w", version+1, err)
			}
		}
		if err := exec(tx, `INSERT INTO weir_schema (version) VALUES ($1)`, version+1); err != nil {
			return err
		}
	}
	return nil
}
