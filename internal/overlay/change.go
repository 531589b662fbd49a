package overlay

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
)

// maxDescription is the longest text of a change, in bytes; longer ones are cut.
const maxDescription = 4096

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
	// Subject is what it was done to.
	Subject
	// Before and After say in words how it stood.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// YAML is the [Entry.Snippet] of what it made, empty where it made none.
	YAML string `json:"yaml,omitempty"`

	last string // the limit that was named last
}

// trimTexts makes the texts of a change its own, of bounded length and UTF-8.
func (c *Change) trimTexts() {
	for _, s := range []*string{&c.By, &c.Reason, &c.Action, &c.Domain, &c.Rule, &c.Limit, &c.Before, &c.After, &c.YAML} {
		*s = clipText(*s)
	}
	all := make([]weir.Entry, 0, len(c.Entries))
	for _, e := range c.Entries[:min(len(c.Entries), maxEntries)] {
		all = append(all, weir.Entry{Key: clipText(e.Key), Value: clipText(e.Value)})
	}
	c.Entries = all
}

// clipText returns a copy of s, at most maxDescription bytes of it.
func clipText(s string) string {
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
	for _, kv := range [][2]string{{"domain", c.Domain}, {"rule", c.Rule}, {"entries", FormatEntries(c.Entries)}, {"limit", c.Limit},
		{"before", c.Before}, {"after", c.After}, {"by", c.By}, {"reason", c.Reason}, {"yaml", c.YAML}, {"id", c.ID}} {
		if kv[1] != "" {
			args = append(args, kv[0], kv[1])
		}
	}
	return args
}

// ChangeView is a change as operators are told of it, for encoding/json.
type ChangeView struct {
	// Number is nil for a change that the board has not taken yet.
	Number *int64    `json:"number"`
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Node   string    `json:"node"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Action string    `json:"action"`
	Subject
	Before string `json:"before"`
	After  string `json:"after"`
	YAML   string `json:"yaml"`
}

// View returns c as operators are told of it.
func (c *Change) View() ChangeView {
	v := ChangeView{ID: c.ID, At: time.UnixMicro(c.At).UTC(), Node: c.Node, By: c.By, Reason: c.Reason, Action: c.Action,
		Subject: c.Subject, Before: c.Before, After: c.After, YAML: c.YAML}
	if c.Number > 0 {
		v.Number = &c.Number
	}
	return v
}
