package admit

import (
	"context"

	"github.com/weirlimit/weir"
)

// RenewPermits keeps the permits of r's lease for another period, and acquires those anew that
// were lost, if there is room. It charges no other limit. The ops are those of the permits.
func RenewPermits(ctx context.Context, l *weir.Limiter, r *weir.Request) ([]weir.Op, weir.Decision, error) {
	var ops []weir.Op
	for _, o := range l.Match(r) {
		if o.Limit.Traits()&weir.Leases != 0 && o.Role != weir.Deny {
			ops = append(ops, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, ID: o.ID, Role: o.Role})
		}
	}
	if len(ops) == 0 {
		return nil, weir.AllowUnlimited(), nil
	}
	d, err := l.Apply(ctx, ops)
	return ops, d, err
}
