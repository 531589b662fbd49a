package overlay

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/limits"
)

// View is an entry as operators are told of it, for encoding/json.
type View struct {
	Kind    Kind         `json:"kind"`
	Domain  string       `json:"domain"`
	Entries []weir.Entry `json:"entries"`
	Limit   string       `json:"limit"`
	Key     string       `json:"key"`
	// Rate and Burst are an override's, "5000/minute"; Burst 0: as many as Count.
	Rate  string `json:"rate,omitempty"`
	Burst int64  `json:"burst,omitempty"`
	// Until is when it ends, nil for never, by the store's clock.
	Until *time.Time `json:"until"`
	Made  time.Time  `json:"made"`
	By    string     `json:"by"`
	// Here: it holds on this node alone.
	Here bool `json:"here,omitempty"`
	// YAML is the [Entry.Snippet].
	YAML string `json:"yaml"`
}

// view returns e as operators are told of it.
func (e *Entry) view() View {
	v := View{Kind: e.Kind, Domain: e.Domain, Entries: e.Entries, Limit: e.Limit, Key: figures.Key(e.Key), Until: e.endTime(), Made: time.UnixMicro(e.Made).UTC(), By: e.By, Here: e.Here, YAML: e.Snippet()}
	if e.Kind == BanDomain {
		v.Key = FormatEntries(e.Entries)
	}
	if e.Kind == Override {
		v.Rate, v.Burst = e.Rate(), e.Burst
	}
	return v
}

// ModeView is a mode as operators are told of it, for encoding/json.
type ModeView struct {
	limits.Name
	Mode Mode `json:"mode"`
	// Percent of the keys that are refused, of enforce; nil of other modes.
	Percent *int64 `json:"percent"`
	// Rules is the mode by the rules, "shadow", "enforce" or "10%"; nil while the
	// rules have no such limit: then the mode waits for it.
	Rules *string `json:"rules"`
	// Until is when it ends, nil for never, by the store's clock.
	Until  *time.Time `json:"until"`
	Made   time.Time  `json:"made"`
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	// YAML is the [Entry.Snippet].
	YAML string `json:"yaml"`
}

// LimitMode is how one limit stands, for encoding/json.
type LimitMode struct {
	limits.Name
	// Mode in force, and for how many percent of the keys it refuses.
	Mode    Mode  `json:"mode"`
	Percent int64 `json:"percent"`
	// Rules is the mode by the rules in a word.
	Rules string `json:"rules"`
	// Changed is what an operator made of it, nil for nothing.
	Changed *ModeView `json:"changed"`
	// Counts are the decisions of this node under the limit since its start.
	Counts map[string]uint64 `json:"counts"`
}

// String returns the mode in a word.
func (m *LimitMode) String() string {
	word := Setting{m.Mode, m.Percent}.String()
	if m.Changed == nil {
		word += ", by the rules"
	}
	return word
}

// String says the mode in a line: "enforced for 10% of keys by an operator until
// 2026-01-02T15:04:05Z; shadow by the rules".
func (v *ModeView) String() string {
	text := string(v.Mode)
	if v.Mode == Enforced && *v.Percent < 100 {
		text = fmt.Sprintf("enforced for %d%% of keys", *v.Percent)
	} else if v.Mode == Enforced {
		text = "enforced for all keys"
	}
	text += " by an operator"
	if v.Until != nil {
		text += " until " + v.Until.Format(time.RFC3339)
	}
	if v.Rules != nil {
		text += "; " + *v.Rules + " by the rules"
	}
	return text
}

// modeView returns the mode e as operators are told of it; p is nil where the rules have
// none.
func (e *Entry) modeView(p *limits.Limit) ModeView {
	v := ModeView{Name: limits.Name{Domain: e.Domain, Rule: e.Rule, Limit: e.Limit}, Mode: e.Mode, Until: e.endTime(), Made: time.UnixMicro(e.Made).UTC(), By: e.By, Reason: e.Reason, YAML: e.Snippet()}
	if e.Mode == Enforced {
		v.Percent = new(e.Percent)
	}
	if p != nil {
		v.Rules = new(SettingOf(p.Limit).String())
	}
	return v
}

// ModeSnippet is [Entry.Snippet] of a mode that an operator gave to limits in one change.
func ModeSnippet(views []ModeView) string {
	if len(views) == 0 {
		return ""
	}
	s := Setting{Mode: views[0].Mode}
	if views[0].Percent != nil {
		s.Percent = *views[0].Percent
	}
	var of []string
	for i := range views {
		of = append(of, limitWords(views[i].Domain, views[i].Rule, views[i].Limit))
	}
	return modeSnippet(s, views[0].Until, of)
}
