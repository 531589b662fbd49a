package weir

import "context"

// Tracer follows single decisions, as for a distributed trace. Safe for concurrent
// use.
type Tracer interface {
	// Begin is called before each decision by rules, and must not block. It returns
	// the context in which the store is asked, and what is called with the
	// decision, or with the error in place of one, before Decide returns; r is then
	// answered. Nil means that the decision is not followed.
	Begin(ctx context.Context, r *Request) (context.Context, func(Decision, error))
}
