package answer

import "github.com/weirlimit/weir"

// IsHidden reports whether clients must not learn of the limit that the decision d, made
// of ops, is of: [weir.Mode].Hidden of the limit as it is written.
func IsHidden(ops []weir.Op, d weir.Decision) bool {
	if d.Limit == nil {
		return false
	}
	for i := range ops {
		if o := &ops[i]; o.Decision.Limit == d.Limit && o.Written() != nil && o.Written().Hidden {
			return true
		}
	}
	return d.Limit.Hidden
}
