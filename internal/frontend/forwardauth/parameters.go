package forwardauth

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/frontend/authorize"
)

// parameters are how a proxy wants to be answered.
type parameters struct {
	authorize.Parameters
	// from is the family of header fields that tell of the request, nil for
	// whichever are there.
	from *family
}

// maxParameters bounds all parameters together, in bytes.
const maxParameters = 1024

// Parameters lists the names of the parameters that a proxy's configuration can
// give: those of [authorize.ParameterNames] and
//
//	from  forwarded or original: the header fields that this proxy sets,
//	      X-Forwarded-* or X-Original-*; if not given those that are there, and
//	      400 where they differ
func Parameters() []string { return append(authorize.ParameterNames(), "from") }

// parseParameters reads parameters as they stand behind the colon, joined by &, escaped as
// in a query.
func (h *Handler) parseParameters(text string) (p parameters, err error) {
	if text == "" {
		return p, nil
	}
	if len(text) > maxParameters {
		return p, fmt.Errorf("the parameters have %d bytes, at most %d are allowed", len(text), maxParameters)
	}
	seen := 0
	for rest, more := text, true; more; {
		var pair string
		pair, rest, more = strings.Cut(rest, "&")
		name, value, _ := strings.Cut(pair, "=")
		at := slices.Index(h.names, name)
		if at < 0 {
			return p, authorize.UnknownParameter(name, h.names)
		}
		if seen&(1<<at) != 0 {
			return p, fmt.Errorf("parameter %s is given twice", name)
		}
		seen |= 1 << at
		if strings.ContainsAny(value, "%+") {
			if value, err = url.QueryUnescape(value); err != nil {
				return p, fmt.Errorf("parameter %s has a broken escape", name)
			}
		}
		if name != "from" {
			err = h.auth.SetParameter(&p.Parameters, name, value)
		} else if p.from = familyNamed(value); p.from == nil {
			err = errors.New("parameter from: use forwarded for X-Forwarded-*, original for X-Original-*")
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}
