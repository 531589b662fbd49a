package node

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/limits"
)

var _ httpapi.Rulebook = (*ruleSet)(nil)

// rulebook is the answer of /v1/rules.
type rulebook struct {
	// Limits are those in words.
	Limits []string `json:"limits"`
	// Rules are those of the files, in their order.
	Rules []describedRule `json:"rules"`
	// After asks for those behind these; nil where there are none.
	After *int `json:"after"`
	// Overlay is the bans and overrides of single keys that are in force.
	Overlay []overlay.View `json:"overlay"`
	// Modes are those of limits that operators changed.
	Modes []overlay.ModeView `json:"modes"`
}

// describedRule is one rule, its limits in words.
type describedRule struct {
	Domain string   `json:"domain"`
	Rule   string   `json:"rule"`
	File   string   `json:"file"`
	Line   int      `json:"line"`
	Limits []string `json:"limits"`
	// Asked is false where the node has a gateway, or proxies ask it, and nothing that
	// they are asked about can meet the rule.
	Asked     bool              `json:"asked"`
	TierBy    string            `json:"tier_by,omitempty"`
	Tiers     []describedChoice `json:"tiers,omitempty"`
	Overrides []describedChoice `json:"overrides,omitempty"`
	// Changed says of each of its limits whose mode an operator changed to what,
	// and until when.
	Changed map[string]string `json:"changed,omitempty"`
}

// describedChoice is what takes the place of a rule's limits for some values.
type describedChoice struct {
	Value  string   `json:"value"`
	Limits []string `json:"limits"`
}

// Describe implements httpapi.Rulebook.
func (r *ruleSet) Describe(after, size int) any {
	book := rulebook{Limits: []string{}, Rules: []describedRule{}, Overlay: r.overlay.Keys.Views(r.overlay.Keys.ListEntries()),
		Modes: r.overlay.Modes.Views()}
	type ruleRef struct{ domain, rule string }
	changed := map[ruleRef]map[string]string{}
	for i := range book.Modes {
		v := &book.Modes[i]
		at := ruleRef{v.Domain, v.Rule}
		if changed[at] == nil {
			changed[at] = map[string]string{}
		}
		changed[at][v.Limit] = v.String()
	}
	book.Limits = append(book.Limits, r.words.Texts()...)
	set := r.currentLimits()
	asked := r.asked(set)
	rules := set.FileRules()
	rules = rules[min(after, len(rules)):]
	if size > 0 && size < len(rules) {
		rules, book.After = rules[:size], new(after+size)
	}
	for _, rule := range rules {
		book.Rules = append(book.Rules, describedRule{
			Domain: rule.Domain, Rule: rule.Path, File: rule.File, Line: rule.Line,
			Limits: inWords(rule.Limits), Asked: asked(rule), TierBy: rule.TierBy,
			Tiers: describeChoices(rule.Tiers), Overrides: describeChoices(rule.Overrides), Changed: changed[ruleRef{rule.Domain, rule.Path}],
		})
	}
	return book
}

func inWords(ls []*limits.Limit) []string {
	out := make([]string, len(ls))
	for i, l := range ls {
		out[i] = l.String()
	}
	return out
}

func describeChoices(cs []limits.Choice) []describedChoice {
	var out []describedChoice
	for _, c := range cs {
		out = append(out, describedChoice{c.Value, inWords(c.Limits)})
	}
	return out
}

// MissingTier implements httpapi.Rulebook.
func (r *ruleSet) MissingTier(req *weir.Request) string { return r.currentLimits().MissingTier(req) }

// Explain implements httpapi.Rulebook.
func (r *ruleSet) Explain(req *weir.Request) any { return r.currentLimits().Explain(req) }
