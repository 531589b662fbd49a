package overlay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Bounds of the history.
const (
	// MaxChanges is how many changes are kept: the last ones.
	MaxChanges = 1000
	// maxHistory is the largest document of them, in bytes: those that are longest
	// ago go first.
	maxHistory = 2 << 20
	// maxPending is how many changes wait to be written down while the board does
	// not answer. The log has all of them.
	maxPending = MaxChanges
)

// Audit is the log of what operators changed, and the changes that the board has not taken
// yet. Safe for concurrent use.
type Audit struct {
	page[Change] // the oldest first
	node         string
	pending      []Change // Requires: mu.
}

func newAudit(b *board, node string) *Audit {
	return &Audit{page: page[Change]{board: b, name: documentName + ".audit", decode: decodeChanges, encode: encodeChanges}, node: node}
}

// NoteChanges logs changes that were made, and writes them down. Where the board does not
// take them now, [Overlay.Refresh] tries again; until then this node alone knows of
// them, and a restart forgets them.
// Several are written down together.
func (a *Audit) NoteChanges(ctx context.Context, what string, list ...Change) {
	for i := range list {
		c := &list[i]
		var id [8]byte
		rand.Read(id[:])
		c.ID, c.Node = hex.EncodeToString(id[:]), a.node
		if c.At == 0 {
			c.At = a.board.storeTime()
		}
		c.trimTexts()
		a.board.logger.Info(what, c.args()...)
	}
	if _, err := a.writePending(ctx, list); err != nil {
		a.board.logger.Error("audit log write failed; will retry", "changes", len(list), "err", err)
	}
}

// writePending writes down what is pending and more, by compare and set: of changes noted at
// once on several nodes none is lost. It returns how many were written.
func (a *Audit) writePending(ctx context.Context, more []Change) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = append(a.pending, more...)
	a.pending = slices.Delete(a.pending, 0, max(len(a.pending)-maxPending, 0))
	n := len(a.pending)
	if n == 0 {
		return 0, nil
	}
	if err := a.changeEntries(ctx, func(all []Change) ([]Change, bool) { return numbered(all, a.pending), true }); err != nil {
		return 0, err
	}
	a.pending = nil
	return n, nil
}

// numbered returns the changes with more behind them, numbered. One that is there
// already, as its writing was answered too late, is not there twice.
func numbered(all, more []Change) []Change {
	last := int64(0)
	known := make(map[string]bool, len(all))
	for i := range all {
		known[all[i].ID], last = true, max(last, all[i].Number)
	}
	for _, c := range more {
		if !known[c.ID] {
			last++
			c.Number = last
			all = append(all, c)
		}
	}
	return all
}

// encodeChanges writes the last changes, as many as there is room for, and returns
// those.
func encodeChanges(changes []Change) ([]byte, []Change, error) {
	changes = changes[max(0, len(changes)-MaxChanges):]
	raw, size, from := make([]json.RawMessage, len(changes)), 64, len(changes)
	for i := len(changes) - 1; i >= 0; i-- {
		text, err := json.Marshal(&changes[i])
		if err != nil {
			return nil, nil, fmt.Errorf("overlay: %w", err)
		}
		if size += len(text) + 1; size > maxHistory {
			break
		}
		raw[i], from = text, i
	}
	data, err := json.Marshal(document{format, raw[from:]})
	return data, changes[from:], err
}

// decodeChanges reads a document of changes. Members that a later version has
// added are left out.
func decodeChanges(data []byte) ([]Change, error) {
	entries, err := readDocument(data, "changes", MaxChanges)
	if err != nil {
		return nil, err
	}
	all := make([]Change, len(entries))
	last := int64(0)
	for i, raw := range entries {
		c := &all[i]
		if err := json.Unmarshal(raw, c); err != nil {
			return nil, fmt.Errorf("overlay: change %d: %w", i, err)
		}
		if c.Number <= last || c.Number > 1<<53 || c.ID == "" || len(c.ID) > 64 || c.At < 0 || len(raw) > maxHistory {
			return nil, fmt.Errorf("overlay: change %d: number %d, id %.64q and time %d are not those of a change", i, c.Number, c.ID, c.At)
		}
		last = c.Number
		c.trimTexts()
	}
	return all, nil
}

// unreadable is the error of a log that cannot be read now. Requires: mu.
func (a *Audit) unreadable(err error) error {
	if errors.Is(err, ErrUnread) {
		return err
	}
	return &AuditError{err, len(a.pending)}
}

// Changes returns up to limit of the last changes, the latest first; with before
// not 0 those with a lower Number. It reads the board. Changes that the board has
// not taken yet come before those, all of them, with the Number 0.
func (a *Audit) Changes(ctx context.Context, limit int, before int64) ([]Change, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.loadDocument(ctx); err != nil {
		return nil, a.unreadable(err)
	}
	var out []Change
	if before == 0 {
		out = slices.Clone(a.pending)
		slices.Reverse(out)
	}
	for _, c := range slices.Backward(a.list) {
		if limit > 0 && (before == 0 || c.Number < before) {
			out = append(out, c)
			limit--
		}
	}
	return out, nil
}
