package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/weirlimit/weir/internal/documents"
)

// MaxEntries is how many bans and overrides there can be at a time.
const MaxEntries = 10_000

// format is the one that is written, and the only one that is read.
const format = 1

// document is what is kept on the board, as JSON.
type document struct {
	Format  int     `json:"format"`
	Entries []Entry `json:"entries"`
}

// ErrFull: as many keys are banned or overridden as can be.
var ErrFull = errors.New("overlay: too many keys are banned or overridden: lift some, or write them into the rules")

// encode writes entries. Their number and the size of all are bounded.
func encode(entries []Entry) ([]byte, error) {
	if len(entries) > MaxEntries {
		return nil, ErrFull
	}
	for i := range entries {
		if err := entries[i].check(); err != nil {
			return nil, fmt.Errorf("overlay: %w", err)
		}
	}
	data, err := json.Marshal(document{format, entries})
	if err == nil && len(data) > documents.MaxDocument {
		err = ErrFull
	}
	return data, err
}

// Decode reads a document as it is kept on a board. What it returns is checked:
// no text of another hand makes a node do more than ban and override.
func Decode(data []byte) ([]Entry, error) {
	var d document
	if err := read(data, "bans and overrides", true, &d); err != nil {
		return nil, err
	}
	if err := fits("bans and overrides", d.Format, format, len(d.Entries), MaxEntries); err != nil {
		return nil, err
	}
	type id struct {
		kind Kind
		counter
	}
	seen := make(map[id]bool, len(d.Entries))
	for i := range d.Entries {
		e := &d.Entries[i]
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("overlay: entry %d: %w", i, err)
		}
		if e.Kind == Allow || e.Kind == BanDomain {
			return nil, fmt.Errorf("overlay: entry %d: kind %s stands in the other document", i, e.Kind)
		}
		at := id{e.Kind, e.counter()}
		if seen[at] {
			return nil, fmt.Errorf("overlay: entry %d: a second %s of one key", i, e.Kind)
		}
		seen[at] = true
	}
	return d.Entries, nil
}

// read reads the JSON of a document of what. Strict: a member that into does not
// have is an error.
func read(data []byte, what string, strict bool, into any) error {
	if len(data) > documents.MaxDocument {
		return fmt.Errorf("overlay: document of %d bytes is larger than %d", len(data), documents.MaxDocument)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("overlay: not a document of %s: %w", what, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("overlay: something follows the document")
	}
	return nil
}

// fits reports whether a document of what is of the format that this version reads,
// and has at most so many entries.
func fits(what string, format, reads, entries, most int) error {
	switch {
	case format != reads:
		return fmt.Errorf("overlay: document of %s of format %d, this version reads %d", what, format, reads)
	case entries > most:
		return fmt.Errorf("overlay: document of %s with %d entries, more than %d", what, entries, most)
	}
	return nil
}
