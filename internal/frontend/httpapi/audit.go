package httpapi

import (
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
)

// usualChanges is how many changes are listed where the query does not say.
const usualChanges = 100

// auditLog answers operators about what they changed.
type auditLog struct {
	responder *responder
	overlay   *overlay.Overlay
}

func (g *auditLog) routes() routes {
	return routes{"/v1/admin/audit": {"GET": g.responder.sendsValue(g.listChanges)}}
}

// listChanges answers GET /v1/admin/audit: what operators changed, the latest first.
func (g *auditLog) listChanges(r *http.Request) (any, error) {
	in, fault := readParams(r, "size", "before", "limit")
	// Clients of earlier versions call the size limit.
	size := readNumber(in, &fault, "size", overlay.MaxChanges, readNumber(in, &fault, "limit", overlay.MaxChanges, usualChanges))
	before := readNumber(in, &fault, "before", weir.MaxCost, 0)
	if fault != nil {
		return nil, fault
	}
	changes, err := g.overlay.Audit.Changes(r.Context(), int(size)+1, before)
	if err != nil {
		return nil, err
	}
	out := struct {
		Changes []overlay.ChangeView `json:"changes"`
		// Before asks for those that are longer ago; nil when there are none.
		Before *int64 `json:"before"`
	}{Changes: []overlay.ChangeView{}}
	for i := range changes {
		if changes[i].Number > 0 {
			size--
		}
		if size < 0 {
			out.Before = out.Changes[len(out.Changes)-1].Number
			break
		}
		out.Changes = append(out.Changes, changes[i].View())
	}
	return out, nil
}
