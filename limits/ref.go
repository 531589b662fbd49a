package limits

import "github.com/weirlimit/weir"

// Ref is a limit and the words by which people know it.
type Ref struct {
	// Domain and Rule say where the limit is written; Rule is a Rule.Path. The limits of
	// deny lists and pools belong to no rule: their Domain is empty, and Rule is their
	// scope, which names their place.
	Domain, Rule string
	Limit        *weir.Limit
}

// Name is what people call a limit: the words of its [Ref], and its own name. Limits that stand
// for one another, such as a limit before and after a reload, have the same.
type Name struct {
	// Domain and Rule are the words of the rules file, Limit the limit's name.
	Domain string `json:"domain"`
	Rule   string `json:"rule"`
	Limit  string `json:"limit"`
}

// Name returns what people call the limit.
func (r Ref) Name() Name { return Name{r.Domain, r.Rule, r.Limit.Name} }
