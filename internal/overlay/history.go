package overlay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
)

// Bounds of the history.
const (
	// MaxChanges is how many changes are kept: the last ones.
	MaxChanges = 1000
	// maxHistory is the largest document of them, in bytes: those that are longest
	// ago go first.
	maxHistory = 2 << 20
	// maxDescription is the longest text of a change, in bytes; longer ones are cut.
	maxDescription = 4096
	// maxPending is how many changes wait to be written down while the board does
	// not answer. The log has all of them.
	maxPending = MaxChanges
)

// Author is who changes something, and why.
type Author struct {
	// By says who, such as the name of a token and an address.
	By string
	// Reason says why, at most 1024 bytes. It may be empty.
	Reason string
}

// Change is something that an operator changed.
type Change struct {
	// Number grows with every change that was written down. Zero: the board has
	// not taken it yet.
	Number int64 `json:"number"`
	// ID tells the change from all others, also from one written down twice.
	ID string `json:"id"`
	// At is when, by the store's clock, in microseconds since the Unix epoch.
	At int64 `json:"at_us"`
	// Node that was asked, By whom, and the Reason that was given.
	Node   string `json:"node,omitempty"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	// Action is what was done: ban, unban, allow, disallow, override, reset,
	// grant, mode, shed.
	Action string `json:"action"`
	// Domain, Rule, Entries and Limit name what it was done to, as the operator
	// named it.
	Domain  string       `json:"domain,omitempty"`
	Rule    string       `json:"rule,omitempty"`
	Entries []weir.Entry `json:"entries,omitempty"`
	Limit   string       `json:"limit,omitempty"`
	// Before and After say in words how it stood.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// YAML is what it amounts to in a rules file, empty where nothing there does.
	YAML string `json:"yaml,omitempty"`

	last string // the limit that was named last
}

// history is the document of changes, and those that the board has not taken.
type history struct {
	page[Change]          // the oldest first
	pending      []Change // Requires: mu.
}

// Note logs a change that was made, and writes it down. Where the board does not
// take it now, [Overlay.Refresh] tries again; until then this node alone knows of
// it, and a restart forgets it.
func (o *Overlay) Note(ctx context.Context, what string, c Change) { o.noteAll(ctx, what, []Change{c}) }

// noteAll is Note of several changes, written down together.
func (o *Overlay) noteAll(ctx context.Context, what string, list []Change) {
	for i := range list {
		c := &list[i]
		var id [8]byte
		rand.Read(id[:])
		c.ID, c.Node = hex.EncodeToString(id[:]), o.opt.Node
		if c.At == 0 {
			c.At = o.now()
		}
		c.trim()
		o.opt.Logger.Info(what, c.args()...)
	}
	h := &o.history
	h.mu.Lock()
	h.pending = append(h.pending, list...)
	if n := len(h.pending) - maxPending; n > 0 {
		h.pending = slices.Delete(h.pending, 0, n)
	}
	h.mu.Unlock()
	if err := h.flush(ctx, o); err != nil {
		o.opt.Logger.Error("audit log write failed; will retry", "changes", len(list), "err", err)
	}
}

// trim makes the texts of a change its own, of bounded length and UTF-8.
func (c *Change) trim() {
	for _, s := range []*string{&c.By, &c.Reason, &c.Action, &c.Domain, &c.Rule, &c.Limit, &c.Before, &c.After, &c.YAML} {
		*s = cut(*s)
	}
	all := make([]weir.Entry, 0, len(c.Entries))
	for _, e := range c.Entries[:min(len(c.Entries), maxEntries)] {
		all = append(all, weir.Entry{Key: cut(e.Key), Value: cut(e.Value)})
	}
	c.Entries = all
}

// cut returns a copy of s, at most maxDescription bytes of it.
func cut(s string) string {
	if len(s) > maxDescription {
		const more = "…"
		n := maxDescription - len(more)
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + more
	}
	return string(bytes.ToValidUTF8([]byte(s), []byte("\ufffd")))
}

// args are the change for the log.
func (c *Change) args() []any {
	var args []any
	for _, kv := range [][2]string{{"domain", c.Domain}, {"rule", c.Rule}, {"entries", words(c.Entries)}, {"limit", c.Limit},
		{"before", c.Before}, {"after", c.After}, {"by", c.By}, {"reason", c.Reason}, {"yaml", c.YAML}, {"id", c.ID}} {
		if kv[1] != "" {
			args = append(args, kv[0], kv[1])
		}
	}
	return args
}

// flush writes down what is pending, by compare and set: of changes noted at once
// on several nodes none is lost.
func (h *history) flush(ctx context.Context, o *Overlay) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) == 0 {
		return nil
	}
	err := h.change(ctx, o, func(all []Change) ([]Change, bool) { return numbered(all, h.pending), true })
	if err == nil {
		h.pending = nil
	}
	return err
}

// again writes down what could not be when it was made, which was logged then.
func (h *history) again(ctx context.Context, o *Overlay) {
	h.mu.Lock()
	waiting := len(h.pending)
	h.mu.Unlock()
	if waiting > 0 && h.flush(ctx, o) == nil {
		o.opt.Logger.Info("audit log write recovered", "changes", waiting)
	}
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
	entries, err := read(data, "changes", MaxChanges)
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
		c.trim()
	}
	return all, nil
}

// Changes returns up to limit of the last changes, the latest first; with before
// not 0 those with a lower Number. It reads the board. Changes that the board has
// not taken yet come before those, all of them, with the Number 0.
func (o *Overlay) Changes(ctx context.Context, limit int, before int64) ([]Change, error) {
	h := &o.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.load(ctx, o); err != nil {
		return nil, asChange(err)
	}
	var out []Change
	if before == 0 {
		out = slices.Clone(h.pending)
		slices.Reverse(out)
	}
	for _, c := range slices.Backward(h.entries) {
		if limit > 0 && (before == 0 || c.Number < before) {
			out = append(out, c)
			limit--
		}
	}
	return out, nil
}

// ChangeView is a change as operators are told of it, for encoding/json.
type ChangeView struct {
	// Number is nil for a change that the board has not taken yet.
	Number  *int64       `json:"number"`
	ID      string       `json:"id"`
	At      time.Time    `json:"at"`
	Node    string       `json:"node"`
	By      string       `json:"by"`
	Reason  string       `json:"reason"`
	Action  string       `json:"action"`
	Domain  string       `json:"domain,omitempty"`
	Rule    string       `json:"rule,omitempty"`
	Entries []weir.Entry `json:"entries,omitempty"`
	Limit   string       `json:"limit,omitempty"`
	Before  string       `json:"before"`
	After   string       `json:"after"`
	YAML    string       `json:"yaml"`
}

// View returns c as operators are told of it.
func (c *Change) View() ChangeView {
	v := ChangeView{ID: c.ID, At: time.UnixMicro(c.At).UTC(), Node: c.Node, By: c.By, Reason: c.Reason, Action: c.Action,
		Domain: c.Domain, Rule: c.Rule, Entries: c.Entries, Limit: c.Limit, Before: c.Before, After: c.After, YAML: c.YAML}
	if c.Number > 0 {
		v.Number = &c.Number
	}
	return v
}
