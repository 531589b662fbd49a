package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/spell"
)

// usualChanges is how many changes are listed where the query does not say.
const usualChanges = 100

// auditLog answers operators about what they changed.
type auditLog struct {
	responder *responder
	overlay   *overlay.Overlay
}

func (g *auditLog) routes() routes {
	return routes{"/v1/admin/audit": {"GET": g.responder.gets(g.list)}}
}

// list answers GET /v1/admin/audit: what operators changed, the latest first.
func (g *auditLog) list(r *http.Request) (any, error) {
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

// readNumber reads a number from 1 to most, usual where there is none.
func readNumber(in map[string]string, fault **inputError, name string, most, usual int64) int64 {
	if in[name] == "" || *fault != nil {
		return usual
	}
	n, err := strconv.ParseInt(in[name], 10, 64)
	if err != nil || n < 1 || n > most {
		*fault = &inputError{fmt.Sprintf("must be a whole number from 1 to %d", most), "?" + name}
	}
	return n
}

// readParams reads the query of a GET: known names, each once, of bounded length.
func readParams(r *http.Request, known ...string) (map[string]string, *inputError) {
	out := map[string]string{}
	if len(r.URL.RawQuery) > maxSmallBody {
		return nil, &inputError{"is too long", "?query"}
	}
	for name, values := range r.URL.Query() {
		switch {
		case !slices.Contains(known, name):
			return nil, &inputError{"unknown parameter" + spell.Hint(name, known) + "; known are " + strings.Join(known, ", "), "?" + name}
		case len(values) != 1:
			return nil, &inputError{"is there twice", "?" + name}
		case len(values[0]) > maxRule:
			return nil, &inputError{"must have at most " + strconv.Itoa(maxRule) + " bytes", "?" + name}
		}
		out[name] = values[0]
	}
	return out, nil
}
