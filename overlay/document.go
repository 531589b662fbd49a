package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/weirlimit/weir"
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
	if err == nil && len(data) > weir.MaxDocument {
		err = ErrFull
	}
	return data, err
}

// Decode reads a document as it is kept on a board. What it returns is checked:
// no text of another hand makes a node do more than ban and override.
func Decode(data []byte) ([]Entry, error) {
	if len(data) > weir.MaxDocument {
		return nil, fmt.Errorf("overlay: document of %d bytes is larger than %d", len(data), weir.MaxDocument)
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("overlay: not a document of bans and overrides: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("overlay: something follows the document")
	}
	switch {
	case d.Format != format:
		return nil, fmt.Errorf("overlay: document of format %d, this version reads %d", d.Format, format)
	case len(d.Entries) > MaxEntries:
		return nil, fmt.Errorf("overlay: document of %d entries, more than %d", len(d.Entries), MaxEntries)
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
		if e.Kind == Allow {
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
