package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
)

// Kind is what an [Entry] does.
type Kind string

// Kinds of an entry.
const (
	// Ban refuses the key.
	Ban Kind = "ban"
	// BanDomain refuses every request of the domain that carries the one entry.
	BanDomain Kind = "ban_domain"
	// Override gives the key other numbers.
	Override Kind = "override"
	// Allow lets the key pass whatever it has spent: its limit counts what it would
	// refuse. A ban refuses it all the same.
	Allow Kind = "allow"
	// KindMode gives the limit another mode. It holds while the rules have a limit of
	// that Scope and name.
	KindMode Kind = "mode"
)

// kinds are the kinds that this version knows, in the words of the audit log and of
// the log.
var kinds = map[Kind]struct {
	do, undo     string // the action, and the one that takes it back
	done, undone string // the same as log messages
	effect       string // what an entry makes of its key; empty where its numbers or its mode say it
	without      string // what the key is without one; empty where its limit says it
}{
	Ban:       {"ban", "unban", "key banned", "ban lifted", "banned", "not banned"},
	BanDomain: {"ban", "unban", "client banned over the domain", "ban of a client lifted", "banned", "not banned"},
	Allow:     {"allow", "disallow", "key always let through", "key limited again", "always let through", "limited"},
	Override:  {"override", "override", "limit of a key overridden", "override taken back", "", ""},
	KindMode:  {"mode", "mode", "mode of a limit changed", "mode of a limit taken back", "", ""},
}

// isKnown reports whether this version knows the kind of the entry.
func (e *Entry) isKnown() bool {
	_, ok := kinds[e.Kind]
	return ok
}

// Subject is what an operator changed something of, as the operator named it.
type Subject struct {
	Domain  string       `json:"domain,omitempty"`
	Rule    string       `json:"rule,omitempty"`
	Entries []weir.Entry `json:"entries,omitempty"`
	Limit   string       `json:"limit,omitempty"` // its name
}

// Entry is a ban, an override or a free pass of one key of one limit, or the mode of a
// limit. Times are the store's, in microseconds since the Unix epoch.
type Entry struct {
	Kind Kind `json:"kind"`
	// Subject has Domain, Entries and Limit of a key, and Domain, Rule and Limit of a mode;
	// the rest goes by Scope and Key, which name the counter on every node.
	Subject
	Scope string `json:"scope"`
	Key   string `json:"key,omitempty"`
	// Algorithm of the limit when the entry of a key was made, by its name.
	Algorithm string `json:"algorithm,omitempty"`
	// Count per Period microseconds, and Burst, as in a limit: of an override.
	Count  int64 `json:"count,omitempty"`
	Period int64 `json:"period_us,omitempty"`
	Burst  int64 `json:"burst,omitempty"`
	// Mode, and Percent of the keys with Enforced: of a mode.
	Mode    Mode  `json:"mode,omitempty"`
	Percent int64 `json:"percent,omitempty"`
	// Until is when it ends; zero for an override or a mode that stays.
	Until int64 `json:"until_us,omitempty"`
	// Made is when it was made, By who made it, Reason why (of a mode).
	Made   int64  `json:"made_us"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	// Here: of this node alone, and in no document.
	Here bool `json:"-"`

	// raw is the text of an entry that was read, nil of one that this node has made: a
	// change by this node loses nothing of it that it does not know, a kind or a
	// member. A member that changes what an entry means therefore needs a new kind.
	raw json.RawMessage
}

// Bounds of an entry, in bytes.
const (
	maxText    = 1024
	maxKey     = 48 << 10
	maxScope   = 8 << 10
	maxEntries = 32
)

// counter names one key of one limit, the same on every node.
type counter struct{ scope, key string }

func (e *Entry) counter() counter { return counter{e.Scope, e.Key} }

// hasEnded reports whether the entry has ended by now.
func (e *Entry) hasEnded(now int64) bool { return e.Until > 0 && now >= e.Until }

// target is what there can be one entry of a kind of: a key of a limit, or a limit.
type target struct {
	kind Kind
	counter
	limit string
}

func (e *Entry) target() target {
	if e.Kind == KindMode {
		return target{e.Kind, counter{scope: e.Scope}, e.Limit}
	}
	return target{e.Kind, e.counter(), ""}
}

// endTime returns when the entry ends, nil for never.
func (e *Entry) endTime() *time.Time {
	if e.Until == 0 {
		return nil
	}
	return new(time.UnixMicro(e.Until).UTC())
}

// checkFields reports what is wrong with an entry, wherever it comes from.
func (e *Entry) checkFields() error {
	errs := []error{
		checkText("domain", e.Domain, 0, maxText), checkText("limit", e.Limit, 1, maxText), checkText("scope", e.Scope, 1, maxScope),
		checkText("by", e.By, 0, maxText), checkText("reason", e.Reason, 0, maxText),
	}
	if e.Until < 0 || e.Made < 0 {
		errs = append(errs, errors.New("a time before 1970"))
	}
	if e.Kind == KindMode {
		return errors.Join(append(errs, checkText("rule", e.Rule, 1, maxScope), e.Setting().checkFields())...)
	}
	return errors.Join(append(errs, e.checkKey())...)
}

// checkKey is check for what is of a key alone.
func (e *Entry) checkKey() error {
	errs := []error{checkText("key", e.Key, 0, maxKey), checkText("algorithm", e.Algorithm, 1, maxText)}
	if n := len(e.Entries); n < 1 || n > maxEntries {
		errs = append(errs, fmt.Errorf("%d entries: there must be from 1 to %d", n, maxEntries))
	}
	for _, p := range e.Entries {
		errs = append(errs, checkText("key of an entry", p.Key, 1, maxText), checkText("value of an entry", p.Value, 0, maxText))
	}
	if e.Kind == Override {
		if e.Count < 1 || e.Count > weir.MaxCost || e.Burst < 0 || e.Burst > weir.MaxCost {
			errs = append(errs, fmt.Errorf("count %d and burst %d must be at most 2^53, and the count at least 1", e.Count, e.Burst))
		}
		if e.Period < 1 || e.Period > weir.MaxPeriod.Microseconds() {
			errs = append(errs, fmt.Errorf("period of %d microseconds must be between 1 and ten years", e.Period))
		}
		return errors.Join(errs...)
	}
	if e.Kind == BanDomain && len(e.Entries) != 1 {
		errs = append(errs, fmt.Errorf("kind %s with %d entries: it is by one", e.Kind, len(e.Entries)))
	}
	if e.Until == 0 {
		errs = append(errs, fmt.Errorf("kind %s without an end", e.Kind))
	}
	if e.Count != 0 || e.Period != 0 || e.Burst != 0 {
		errs = append(errs, fmt.Errorf("kind %s with numbers of an override", e.Kind))
	}
	return errors.Join(errs...)
}

// checkText reports what is wrong with a text of from least to most bytes.
func checkText(name, s string, least, most int) error {
	switch {
	case len(s) < least || len(s) > most:
		return fmt.Errorf("%s has %d bytes: it must have from %d to %d", name, len(s), least, most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not UTF-8", name)
	}
	return nil
}

// Rate returns the numbers of an override as rules files write them:
// "5000/minute", "20" for a concurrency limit.
func (e *Entry) Rate() string {
	if e.Algorithm == "concurrency" {
		return fmt.Sprint(e.Count)
	}
	return fmt.Sprintf("%d/%s", e.Count, period.Format(time.Duration(e.Period)*time.Microsecond))
}

// describe returns the entry in words: "5000/minute burst 6000 until 2026-01-02T15:04:05Z",
// "10% until 2026-01-02T15:04:05Z".
func (e *Entry) describe() string {
	text := kinds[e.Kind].effect
	switch {
	case e.Kind == KindMode:
		text = e.Setting().String()
	case e.Kind == Override && e.Burst > 0:
		text = fmt.Sprintf("%s burst %d", e.Rate(), e.Burst)
	case e.Kind == Override:
		text = e.Rate()
	}
	text += describeEnd(e.Until)
	if e.Here {
		text += ", on this node alone"
	}
	return text
}

// describeEnd says the end of something that a text has said.
func describeEnd(at int64) string {
	if at == 0 {
		return ""
	}
	return " until " + time.UnixMicro(at).UTC().Format(time.RFC3339)
}
