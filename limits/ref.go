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
