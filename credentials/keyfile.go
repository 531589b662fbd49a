package credentials

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/regular"
	"github.com/weirlimit/weir/internal/spell"
	"github.com/weirlimit/weir/internal/yamldoc"
	"go.yaml.in/yaml/v3"
)

// Caps on a file of keys.
const (
	maxKeyFile = 64 << 20 // bytes
	maxKeyRows = 1_000_000
	maxTier    = 64 // bytes
)

// KeyFile is a file of API keys and users, and the tier of each. As YAML it is
// a list, as CSV (a name in .csv) a table with these columns:
//
//   - sha256: 64 hexadecimal digits, the SHA-256 of the key. The file holds no
//     keys, so that who reads it cannot use them. Keys must be random, of at
//     least 128 bits (openssl rand -hex 16): others could be guessed, from their
//     digests or by asking. A known key of fewer than 16 bytes is warned of.
//   - user: whose key it is. Without sha256, the user whose tier this is.
//   - tier.
//
// Safe for concurrent use.
type KeyFile struct {
	path string
	rows atomic.Pointer[keyRows]
}

type keyRows struct {
	keys  map[[sha256.Size]byte]*identity.Key
	users map[string]string // user -> tier
	sum   [sha256.Size]byte // of the file
}

// LoadKeys reads a file of keys. It returns an error if the file cannot be read, has a
// mistake, or is empty; [] and a line of columns are a file of nobody.
func LoadKeys(path string) (*KeyFile, error) {
	f := &KeyFile{path: path}
	if err := f.Reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Reload reads the file again. If it cannot be read, or holds a mistake, the
// last good content stays.
func (f *KeyFile) Reload() error {
	text, err := regular.Read(f.path, maxKeyFile)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	sum := sha256.Sum256(text)
	if was := f.rows.Load(); was != nil && was.sum == sum {
		return nil
	}
	rows, err := parseKeys(f.path, text)
	if err != nil {
		return err
	}
	rows.sum = sum
	f.rows.Store(rows)
	return nil
}

// Watch reloads the file every so often, until ctx ends, and reports what went
// wrong, each mistake once.
func (f *KeyFile) Watch(ctx context.Context, every time.Duration, report func(error)) {
	for last := ""; backoff.Sleep(ctx, every); {
		text := ""
		if err := f.Reload(); err != nil {
			if text = err.Error(); text != last {
				report(err)
			}
		}
		last = text
	}
}

// Doubts returns what is asked of the file that it says of nobody, as if the columns of
// another table had been taken: user and tier are those of [identity.Options].
func (f *KeyFile) Doubts(user, tier []string) []string {
	r := f.rows.Load()
	users, tiers := 0, len(r.users)
	for _, row := range r.keys {
		if row.User != "" {
			users++
		}
		if row.Tier != "" {
			tiers++
		}
	}
	var all []string
	if len(r.keys) == 0 {
		all = append(all, "it has no key, so no API key is known")
	}
	if users == 0 && slices.Contains(user, "api_key") {
		all = append(all, "no key of it has a user, so that api_key names none")
	}
	if tiers == 0 && slices.Contains(tier, "keys") {
		all = append(all, "no row of it has a tier, so that keys gives none")
	}
	return all
}

// Key implements [identity.KeyTable].
func (f *KeyFile) Key(sum [sha256.Size]byte) *identity.Key { return f.rows.Load().keys[sum] }

// TierOf implements [identity.KeyTable].
func (f *KeyFile) TierOf(user string) string { return f.rows.Load().users[user] }

// keyColumns are the keys and columns of the file.
var keyColumns = []string{"sha256", "user", "tier"}

// parseKeys reads the content of a file of keys.
func parseKeys(path string, text []byte) (*keyRows, error) {
	b := &keyBuilder{
		path: path, keyLine: map[[sha256.Size]byte]int{}, userLine: map[string]int{},
		rows: &keyRows{keys: map[[sha256.Size]byte]*identity.Key{}, users: map[string]string{}},
	}
	read := b.readYAML
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		read = b.readCSV
	}
	if err := read(text); err != nil {
		return nil, err
	}
	return b.rows, nil
}

type keyBuilder struct {
	path     string
	rows     *keyRows
	keyLine  map[[sha256.Size]byte]int
	userLine map[string]int
	n        int
}

// lineFault says what is wrong in a line. It repeats no value of sha256, in whose
// place somebody may have put the key.
func (b *keyBuilder) lineFault(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", b.path, line, fmt.Sprintf(format, args...))
}

// unknownColumn says what is wrong in the first line of a table. It repeats no more
// of it: without a line of names the first key stands there.
func (b *keyBuilder) unknownColumn(line int, name string) error {
	hint := ""
	if lower := strings.ToLower(name); slices.Contains(keyColumns, lower) {
		hint = fmt.Sprintf(" (write %s in lower case)", lower)
	} else if meant := spell.Nearest(lower, keyColumns); meant != "" {
		hint = fmt.Sprintf(" (%q is none; did you mean %q?)", name, meant)
	}
	return b.lineFault(line, "the first line must name the columns, separated by commas, of %s: at least sha256, or user and tier%s", strings.Join(keyColumns, ", "), hint)
}

func (b *keyBuilder) readYAML(text []byte) error {
	doc, fault := yamldoc.Read(text)
	if fault != nil {
		return b.lineFault(fault.Line, "%s", fault)
	}
	if doc == nil {
		return fmt.Errorf("%s: it is empty: write a list of blocks with %s, or [] for no users", b.path, strings.Join(keyColumns, ", "))
	}
	root := doc.Content[0]
	if root.Kind != yaml.SequenceNode {
		return b.lineFault(root.Line, "a list is needed, of blocks with %s", strings.Join(keyColumns, ", "))
	}
	for _, item := range root.Content {
		if item.Kind != yaml.MappingNode {
			return b.lineFault(item.Line, "a block with %s is needed", strings.Join(keyColumns, ", "))
		}
		row := map[string]string{}
		for i := 0; i+1 < len(item.Content); i += 2 {
			name, value := item.Content[i], item.Content[i+1]
			if name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode {
				return b.lineFault(value.Line, "a key and a single value are needed, no alias, list or block")
			}
			if _, twice := row[name.Value]; twice {
				return b.lineFault(name.Line, "key %.40q is there twice", name.Value)
			}
			row[name.Value] = value.Value
		}
		if err := b.addKeyRow(item.Line, row); err != nil {
			return err
		}
	}
	return nil
}

func (b *keyBuilder) readCSV(text []byte) error {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff")))) // spreadsheets begin with a BOM
	r.Comment, r.TrimLeadingSpace, r.ReuseRecord = '#', true, true
	var columns []string
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			if columns == nil {
				return fmt.Errorf("%s: it is empty: the first line must name the columns, of %s", b.path, strings.Join(keyColumns, ", "))
			}
			return nil
		}
		var broken *csv.ParseError
		if errors.As(err, &broken) {
			return b.lineFault(broken.Line, "%s", broken.Err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", b.path, err)
		}
		line, _ := r.FieldPos(0)
		if columns == nil {
			for _, name := range record {
				name = strings.TrimSpace(name)
				if slices.Contains(columns, name) {
					return b.lineFault(line, "column %.40q is there twice", name)
				}
				if !slices.Contains(keyColumns, name) {
					return b.unknownColumn(line, name)
				}
				columns = append(columns, strings.Clone(name))
			}
			if !slices.Contains(columns, "sha256") && !(slices.Contains(columns, "user") && slices.Contains(columns, "tier")) {
				return b.unknownColumn(line, "")
			}
			continue
		}
		row := map[string]string{}
		for i, v := range record {
			row[columns[i]] = strings.TrimSpace(v)
		}
		if err := b.addKeyRow(line, row); err != nil {
			return err
		}
	}
}

// addKeyRow adds a row.
func (b *keyBuilder) addKeyRow(line int, row map[string]string) error {
	if b.n++; b.n > maxKeyRows {
		return b.lineFault(line, "more than %d keys and users", maxKeyRows)
	}
	for name := range row {
		if !slices.Contains(keyColumns, name) {
			return b.lineFault(line, "unknown key %.40q (%s)", name, spell.Cure(name, keyColumns))
		}
	}
	user, tier := row["user"], row["tier"]
	if !identity.Fits(user) {
		return b.lineFault(line, "user must have at most 128 bytes and no control characters")
	}
	if len(tier) > maxTier || !identity.Fits(tier) {
		return b.lineFault(line, "tier must have at most %d bytes and no control characters", maxTier)
	}
	if row["sha256"] == "" {
		if user == "" || tier == "" {
			return b.lineFault(line, "a user and a tier are needed, or the sha256 of a key")
		}
		if was, ok := b.userLine[user]; ok {
			return b.lineFault(line, "user %q has a tier in line %d already", user, was)
		}
		b.userLine[user], b.rows.users[user] = line, tier
		return nil
	}
	var sum [sha256.Size]byte
	if len(row["sha256"]) != 2*len(sum) {
		return b.lineFault(line, "sha256 has %d characters, not %d: write the digest of the key, as sha256sum prints it", len(row["sha256"]), 2*len(sum))
	}
	if _, err := hex.Decode(sum[:], []byte(row["sha256"])); err != nil {
		return b.lineFault(line, "sha256 is not hexadecimal: write the digest of the key, as sha256sum prints it")
	}
	if was, ok := b.keyLine[sum]; ok {
		return b.lineFault(line, "the same key is in line %d already", was)
	}
	b.keyLine[sum], b.rows.keys[sum] = line, &identity.Key{User: user, Tier: tier}
	return nil
}
