package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/weirlimit/weir/internal/documents"
)

// MaxEntries is how many bans, overrides, free passes and modes there can be at a time.
const MaxEntries = 10_000

// documentName is that of the document of entries on the board. That of changes has
// .audit behind it.
const documentName = "overlay"

// format is the one that is written, and the only one that is read.
const format = 1

// document is what is kept on the board, as JSON.
type document struct {
	Format  int               `json:"format"`
	Entries []json.RawMessage `json:"entries"`
}

// encodeEntries writes entries. Their number and the size of all are bounded.
func encodeEntries(entries []Entry) ([]byte, []Entry, error) {
	if len(entries) > MaxEntries {
		return nil, nil, ErrFull
	}
	d := document{format, make([]json.RawMessage, len(entries))}
	for i := range entries {
		e := &entries[i]
		if d.Entries[i] = e.raw; e.raw != nil {
			continue
		}
		err := e.checkFields()
		if err == nil {
			d.Entries[i], err = json.Marshal(e)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("overlay: %w", err)
		}
	}
	data, err := json.Marshal(d)
	if err == nil && len(data) > documents.MaxDocument {
		err = ErrFull
	}
	return data, entries, err
}

// DecodeEntries reads the document of entries as it is kept on a board. What it returns is
// checked: no text of another hand makes a node do more than an operator can.
func DecodeEntries(data []byte) ([]Entry, error) {
	all, err := readDocument(data, "entries", MaxEntries)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(all))
	seen := make(map[target]bool, len(all))
	for i, raw := range all {
		e := &entries[i]
		if err := e.decodeJSON(raw); err != nil {
			return nil, fmt.Errorf("overlay: entry %d: %w", i, err)
		}
		if at := e.target(); e.isKnown() {
			if seen[at] {
				return nil, fmt.Errorf("overlay: entry %d: a second %s of one key or limit", i, e.Kind)
			}
			seen[at] = true
		}
	}
	return entries, nil
}

// decodeJSON reads one entry. Of a kind that this version does not know it reads no more.
func (e *Entry) decodeJSON(raw json.RawMessage) error {
	var head struct {
		Kind Kind `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	e.Kind, e.raw = head.Kind, raw
	switch {
	case e.Kind == "":
		return errors.New("an entry without a kind")
	case !e.isKnown():
		return nil
	}
	if err := json.Unmarshal(raw, e); err != nil {
		return err
	}
	return e.checkFields()
}

// readDocument reads a document of what, of at most so many entries.
func readDocument(data []byte, what string, most int) ([]json.RawMessage, error) {
	if len(data) > documents.MaxDocument {
		return nil, fmt.Errorf("overlay: document of %d bytes is larger than %d", len(data), documents.MaxDocument)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var d document
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("overlay: not a document of %s: %w", what, err)
	}
	_, err := dec.Token()
	switch {
	case err != io.EOF:
		return nil, errors.New("overlay: something follows the document")
	case d.Format != format:
		return nil, fmt.Errorf("overlay: document of %s of format %d, this version reads %d", what, d.Format, format)
	case len(d.Entries) > most:
		return nil, fmt.Errorf("overlay: document of %s with %d, more than %d", what, len(d.Entries), most)
	}
	return d.Entries, nil
}
