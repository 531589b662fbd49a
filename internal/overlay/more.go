package overlay

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/documents"
)

// KindMode is the kind of a [Switch].
const KindMode Kind = "mode"

// An item is one entry of the second document: a mode, a key that is always let
// through, a client that is banned over its domain, or what a later version has put there. Of what this node did not make
// itself the text is kept as it was read, so that a change by this node loses
// nothing that it does not know: a kind is left alone, as is a member. A member
// that changes what an entry means therefore needs a new kind.
type item struct {
	raw   json.RawMessage // nil for an entry that this node has made
	mode  *Switch
	allow *Entry // or a ban of a client over its domain
}

func (i *item) over(now int64) bool {
	return i.mode != nil && i.mode.over(now) || i.allow != nil && i.allow.over(now)
}

// later is the second document, as JSON. It is apart from the first so that nodes
// that know only bans and overrides go on with those.
type later struct {
	Format  int               `json:"format"`
	Entries []json.RawMessage `json:"entries"`
}

// laterFormat is the one that is written, and the only one that is read.
const laterFormat = 1

// errFullModes: as many modes as can be.
var errFullModes = fmt.Errorf("%w: of modes and keys that are always let through there can be %d", ErrFull, MaxEntries)

func encodeMore(items []item) ([]byte, error) {
	if len(items) > MaxEntries {
		return nil, errFullModes
	}
	d := later{laterFormat, make([]json.RawMessage, len(items))}
	for i, it := range items {
		var err error
		switch {
		case it.raw != nil:
			d.Entries[i] = it.raw
			continue
		case it.mode != nil:
			if err = it.mode.check(); err == nil {
				d.Entries[i], err = json.Marshal(it.mode)
			}
		default:
			if err = it.allow.check(); err == nil {
				d.Entries[i], err = json.Marshal(it.allow)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("overlay: %w", err)
		}
	}
	data, err := json.Marshal(d)
	if err == nil && len(data) > documents.MaxDocument {
		err = errFullModes
	}
	return data, err
}

// decodeMore reads the second document. What it returns is checked.
func decodeMore(data []byte) ([]item, error) {
	var d later
	if err := read(data, "modes", false, &d); err != nil {
		return nil, err
	}
	if err := fits("modes", d.Format, laterFormat, len(d.Entries), MaxEntries); err != nil {
		return nil, err
	}
	items := make([]item, len(d.Entries))
	type id struct {
		kind Kind
		counter
	}
	modes, allowed := map[place]bool{}, map[id]bool{}
	for i, raw := range d.Entries {
		it, err := readItem(raw)
		if err != nil {
			return nil, fmt.Errorf("overlay: entry %d: %w", i, err)
		}
		if m := it.mode; m != nil {
			if modes[m.place()] {
				return nil, fmt.Errorf("overlay: entry %d: a second mode of one limit", i)
			}
			modes[m.place()] = true
		}
		if a := it.allow; a != nil {
			if allowed[id{a.Kind, a.counter()}] {
				return nil, fmt.Errorf("overlay: entry %d: a second %s of one key", i, a.Kind)
			}
			allowed[id{a.Kind, a.counter()}] = true
		}
		items[i] = it
	}
	return items, nil
}

// readItem reads one entry.
func readItem(raw json.RawMessage) (item, error) {
	it := item{raw: raw}
	var head struct {
		Kind Kind `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return it, err
	}
	switch head.Kind {
	case "":
		return it, errors.New("an entry without a kind")
	case KindMode:
		it.mode = new(Switch)
		if err := json.Unmarshal(raw, it.mode); err != nil {
			return it, err
		}
		return it, it.mode.check()
	case Allow, BanDomain:
		it.allow = new(Entry)
		if err := json.Unmarshal(raw, it.allow); err != nil {
			return it, err
		}
		return it, it.allow.check()
	}
	return it, nil
}
