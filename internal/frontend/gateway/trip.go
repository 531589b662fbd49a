package gateway

import (
	"context"
	"net/http"

	"github.com/weirlimit/weir/identity"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// trip is one request on its way to the upstream and back. It is the context
// of the request that is forwarded.
type trip struct {
	context.Context
	g      *Gateway
	t      *target
	caller *identity.Caller
	visit  *httplimit.Visit // nil for an unlimited route
	reply  reply
	// status is the status that the upstream gave, or weir.NoAnswer.
	status int
}

type tripKey struct{}

// Value implements context.Context.
func (tr *trip) Value(key any) any {
	if key == (tripKey{}) {
		return tr
	}
	return tr.Context.Value(key)
}

// writeFields adds to h what the limits said.
func (tr *trip) writeFields(h http.Header) {
	if tr.visit != nil {
		tr.visit.Header(h)
	}
}

// tripOf returns the trip that r is on.
func tripOf(r *http.Request) *trip { return r.Context().Value(tripKey{}).(*trip) }
